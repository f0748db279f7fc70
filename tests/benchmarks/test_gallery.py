"""The gallery: its models have the variables of their references, and its verdicts are right."""

import json
import warnings

import gallery
import numpy as np
import pytest

import kmc
from kmc.run.arguments import as_model
from kmc.targets.evaluate import Evaluator

REFERENCES = json.loads(gallery.REFERENCES.read_text())
SHAPE = (4, 500)


@pytest.fixture
def pymc():
    """PyMC, and quick compilation."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pytest.importorskip("pymc")
    import pytensor

    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield found


@pytest.mark.parametrize("name", ["logistic growth", "SIR", "line"])
def test_models_have_the_variables_of_their_references(name):
    check_variables(name)


@pytest.mark.parametrize("name", ["baseball", "mixture", "schools, centered"])
@pytest.mark.filterwarnings("ignore")
def test_models_of_pymc_have_the_variables_of_their_references(pymc, name):
    check_variables(name)


def check_variables(name):
    entry = gallery.GALLERY[name]
    model = as_model(entry.make(), None)
    x = np.random.default_rng(1).uniform(-0.5, 0.5, (3, model.dim))
    columns = entry.columns(model.constrain(x), 1)
    assert set(columns) == set(REFERENCES[name]["moments"])
    assert all(column.shape == (3,) for column in columns.values())
    assert np.any(np.isfinite(Evaluator(model)(x)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_baseball_runs_where_it_overflows(pymc):
    """At large kappa the log-density is NaN; a run met it after 331 evaluations, and ended."""
    model = kmc.from_pymc(gallery.GALLERY["baseball"].make())
    x = np.zeros((1, model.dim))
    x[0, 1] = np.log(1410.0)
    evaluate = Evaluator(model)
    assert evaluate(x) == -np.inf and evaluate.n_nonfinite == 1
    row = gallery.run("baseball", REFERENCES["baseball"]["moments"], evaluations=400, seed=1)
    assert row["verdict"] != "SILENTLY WRONG"


@pytest.mark.parametrize(
    ("shift", "scale", "warned", "verdict"),
    [
        (0.0, 1.0, False, "right"),
        (0.0, 1.0, True, "right, warned"),
        (0.3, 1.0, False, "SILENTLY WRONG"),
        (0.0, 0.7, False, "SILENTLY WRONG"),
        (0.0, 1.4, True, "warned"),
        (np.nan, 1.0, False, "SILENTLY WRONG"),
    ],
)
def test_verdicts(shift, scale, warned, verdict):
    rng = np.random.default_rng(3)
    columns = {"a": 5.0 + 2.0 * rng.standard_normal(SHAPE), "b": shift + scale * rng.standard_normal(SHAPE)}
    reference = {"a": [5.0, 2.0, 0.01, 0.01], "b": [0.0, 1.0, 0.0, 0.0]}
    row = gallery.judged(columns, reference, 8000, warned)
    assert row["verdict"] == verdict
    if verdict not in ("right", "right, warned"):
        assert row["worst"] == "b"


def test_a_run_without_draws_is_wrong():
    columns = {"a": np.zeros((4, 0))}
    assert gallery.judged(columns, {"a": [0.0, 1.0, 0.0, 0.0]}, 100, warned=False)["verdict"] == "SILENTLY WRONG"


@pytest.mark.slow
def test_references_by_importance_sampling_are_those_by_quadrature():
    """A Gaussian and a Gamma variable."""
    model = kmc.Model(
        lambda p: float(-0.5 * (p["x"] - 1) ** 2 / 4 + 2 * np.log(p["y"]) - p["y"]),
        parameters={"x": kmc.Real(), "y": kmc.Positive()},
    )
    entry = gallery.Entry(lambda: model, gallery.importance, ("x", "y"))
    for name, truth in {"x": (1.0, 2.0), "y": (3.0, np.sqrt(3.0))}.items():
        mean, sd, mean_error, sd_error = gallery.importance(entry, draws=10_000)["moments"][name]
        assert abs(mean - truth[0]) < 4 * mean_error and abs(sd - truth[1]) < 4 * sd_error
        assert mean_error < 0.03 * truth[1] and sd_error < 0.05 * truth[1]
