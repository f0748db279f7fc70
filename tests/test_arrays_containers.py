import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kmc.scores import GaussianScore
from kmc.spectral import GraphLaplacian


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_outputs_in_data_frames(kind):
    frames = pytest.importorskip(kind)
    x = np.random.default_rng(0).standard_normal((60, 2))
    pipeline = make_pipeline(StandardScaler(), GraphLaplacian(2, bandwidth=1.0)).set_output(transform=kind)
    found = pipeline.fit_transform(x)
    assert isinstance(found, frames.DataFrame)
    assert list(found.columns) == ["graphlaplacian0", "graphlaplacian1"]
    one = pipeline[-1]
    np.testing.assert_array_equal(found, one.embedding_)
    one.set_output(transform="default")
    assert isinstance(one.transform(x), np.ndarray)
    with pytest.raises(ValueError, match="transform='list': expected None or one of 'default', 'pandas'"):
        one.set_output(transform="list")


def test_an_index_is_kept():
    pandas = pytest.importorskip("pandas")
    x = pandas.DataFrame(np.random.default_rng(0).standard_normal((60, 2)), columns=["a", "b"], index=range(7, 67))
    found = GraphLaplacian(2, bandwidth=1.0).set_output(transform="pandas").fit_transform(x)
    assert list(found.index) == list(x.index)


def test_data_sets_of_xarray():
    xarray = pytest.importorskip("xarray")
    x = np.random.default_rng(0).standard_normal((4, 50, 2))
    data = xarray.Dataset({"a": (("chain", "draw"), x[..., 0]), "b": (("chain", "draw"), x[..., 1])})
    found = GaussianScore().fit(data)
    assert list(found.feature_names_in_) == ["a", "b"]
    np.testing.assert_allclose(found.gradient(data), GaussianScore().fit(x.reshape(200, 2)).gradient(x.reshape(200, 2)))
    with pytest.raises(ValueError, match="variables do not have the same dimensions .a ..chain', 'draw'., c "):
        found.fit(data[["a"]].assign(c=("draw", np.ones(50))))
