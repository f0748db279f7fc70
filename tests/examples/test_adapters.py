"""The examples of other packages' problems, each where its package is installed."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PACKAGES = "bilby", "cobaya", "pypesto", "umbridge"

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.arviz,
]  # the budgets are small, and the packages have warnings of their own


@pytest.fixture(autouse=True)
def no_window():
    """Nothing stays open, whatever backend there is."""
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    yield
    plt.close("all")


def drawn():
    import matplotlib.pyplot as plt

    return len(plt.get_fignums()) == 1 and len(plt.gca().lines) == 51


@pytest.mark.parametrize(
    "name", ["alanine_dipeptide", *(f"{package}_problem" for package in PACKAGES)]
)
def test_the_gallery_has_a_picture_of_what_it_does_not_run(name):
    path = f"pictures/{name}.png"
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    assert (
        f"sphinx_gallery_thumbnail_path = '{path}'" in text
        and f".. image:: /{path}\n   :alt: " in text
    )
    picture = (EXAMPLES.parent / "docs" / path).read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) < 250_000


def example(package):
    pytest.importorskip(package)
    spec = importlib.util.spec_from_file_location(
        f"{package}_problem", EXAMPLES / f"{package}_problem.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_bilby():
    module = example("bilby")
    result = module.main(["--evaluations", "400"])
    assert result.search_parameter_keys == ["amplitude", "frequency", "phase"]
    assert result.num_likelihood_evaluations <= 400 and np.all(result.posterior["offset"] == 0.0)
    assert np.all(result.posterior["frequency"].between(2.5, 3.5)) and drawn()


def test_cobaya(capsys):
    sample = example("cobaya").main(["--evaluations", "400"])
    np.testing.assert_allclose(sample["at_two"], sample["intercept"] + 2 * sample["slope"])
    assert "slope" in capsys.readouterr().out and drawn()


def test_pypesto():
    module = example("pypesto")
    result = module.main(["--draws", "50"]).sample_result
    assert result.trace_x.shape == (1, 52, 2) and drawn()
    assert result.trace_neglogpost[0, 7] == pytest.approx(
        module.problem().objective(result.trace_x[0, 7])
    )


def test_umbridge(capsys):
    idata = example("umbridge").main(["--evaluations", "300"])
    assert idata["posterior_predictive"]["y"].dims == ("chain", "draw", "place")
    assert "stiffness[0]" in capsys.readouterr().out
