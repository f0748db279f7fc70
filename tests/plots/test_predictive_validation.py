from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

from kmc.plots import plot_validation

pytestmark = pytest.mark.packages


def table(bandwidths, regularizations, kernels=("gaussian",)):
    grid = [(k, b, r) for k in kernels for b in bandwidths for r in regularizations]
    kernel, bandwidth, regularization = map(np.array, zip(*grid, strict=True))
    n = len(grid)
    objective = (
        (np.log(bandwidth) - 1.0) ** 2
        + np.log10(regularization + 1e-9) ** 2
        + (kernel != "gaussian")
    )
    return SimpleNamespace(
        cv_results_={
            "kernel": kernel,
            "bandwidth": bandwidth,
            "base": np.repeat("uniform", n),
            "penalty": np.repeat("norm", n),
            "regularization": regularization,
            "objective": objective,
            "std_error": np.full(n, 0.1),
        }
    )


def test_surface_marks_the_best():
    ax = plot_validation(table([1.0, 2.0, 4.0], [0.1, 1.0, 10.0]), ax=Figure().subplots())
    (mark,) = ax.lines
    assert (mark.get_xdata()[0], mark.get_ydata()[0]) == (1.5, 1.5)  # bandwidth 2 (e = 2.7), λ = 1
    assert [t.get_text() for t in ax.get_xticklabels()] == ["1", "2", "4"]


def test_one_axis_gives_a_curve_with_errors():
    ax = plot_validation(table([2.0], [0.1, 1.0, 10.0]), ax=Figure().subplots())
    assert ax.get_xlabel() == "λ"
    line = ax.containers[0].lines[0]
    np.testing.assert_allclose(line.get_xdata(), [0.1, 1.0, 10.0])


def test_another_kernel_can_be_shown():
    estimator = table([1.0, 2.0], [0.1, 1.0], ("gaussian", "matern52"))
    ax = plot_validation(estimator, kernel="matern52", ax=Figure().subplots())
    values = ax.collections[0].get_array()
    assert np.min(values) > 1.0
    with pytest.raises(
        ValueError, match=r"kernel='cubic': expected one of \['gaussian', 'matern52'\]"
    ):
        plot_validation(estimator, kernel="cubic")


def test_another_base_can_be_shown():
    estimator = table([1.0, 2.0], [0.1, 1.0], ("gaussian", "matern52"))
    found = estimator.cv_results_
    found["base"], found["kernel"] = (
        np.where(found["kernel"] == "gaussian", "uniform", "gaussian"),
        found["kernel"][:1],
    )
    found["kernel"] = np.repeat(found["kernel"], len(found["base"]))
    assert (
        np.min(
            plot_validation(estimator, base="gaussian", ax=Figure().subplots())
            .collections[0]
            .get_array()
        )
        > 1.0
    )
    assert (
        np.min(
            plot_validation(estimator, base="uniform", ax=Figure().subplots())
            .collections[0]
            .get_array()
        )
        < 1.0
    )


@pytest.mark.parametrize("estimator", [SimpleNamespace(), SimpleNamespace(cv_results_={})])
def test_nothing_was_chosen(estimator):
    with pytest.raises(ValueError, match="no cv_results_"):
        plot_validation(estimator)
