"""Results that cannot be read out: each read-out says why, or does what it still can with a
sentence.
"""

import warnings
from functools import cache, partial

import numpy as np
import pytest

import kmc

pytestmark = pytest.mark.usefixtures("few_particles")
READOUTS = [kmc.expectations, kmc.evidence, kmc.resample]
QUICK = {"dim": 2, "seed": 1, "progress": False}


def normal(x):
    return -0.5 * x @ x


@pytest.fixture(scope="module")
def idata():
    return kmc.sample(normal, draws=None, max_evaluations=1100, **QUICK)


def run(**options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kmc.KmcWarning)
        return kmc.sample(normal, **{**QUICK, **options})


@cache
def without_a_surrogate():
    return run(draws=60, max_evaluations=600, save_surrogate=False)


@cache
def of_another_sampler():
    return run(draws=60, sampler="random-walk")


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("made", [without_a_surrogate, of_another_sampler])
def test_no_surrogate(made, readout):
    with pytest.raises(
        ValueError, match=r"result has no group.*(kmc.sample returned|sampler='kernel-hmc')"
    ):
        readout(made())


@cache
def interrupted_in_main_phase():
    return run(draws=2000, max_evaluations=1500, callback=lambda progress: progress.draw >= 50)


@pytest.mark.slow
def test_an_interrupted_main_phase_is_read_out():
    result = interrupted_in_main_phase()
    assert result["posterior"].sizes["draw"] < 100
    found = kmc.expectations(result, max_surrogate_draws=4000, quantiles=())
    assert np.all(np.abs(found["mean"]) < 5 * found["mcse"]) and np.all(found["mcse"] < 0.1)
    assert kmc.resample(result, draws=100)["posterior"].sizes["draw"] == 100


@pytest.mark.slow
def test_the_evidence_of_an_interrupted_main_phase():
    evidence = kmc.evidence(interrupted_in_main_phase())
    assert (
        abs(float(evidence["log_evidence"][0]) - np.log(2 * np.pi))
        < 5 * float(evidence["se"][0])
        < 0.5
    )


@pytest.mark.slow
def test_fewer_than_a_hundred_draws(monkeypatch):
    """And no evaluations to learn from."""
    monkeypatch.setattr("kmc.run.results._LEARNED_AGAIN", 0)
    few = run(draws=30, max_evaluations=600).isel(draw=slice(0, 9))
    with pytest.warns(kmc.KmcWarning, match="there are 36 draws, and fewer than 40 are too few"):
        found = kmc.expectations(few)
    np.testing.assert_allclose(found["mean"], found["plain_mean"])
    assert found.attrs["corrected"] == 0
    with pytest.raises(ValueError, match="result has 36 draws: expected at least 100"):
        kmc.evidence(few)
    with pytest.warns(kmc.KmcWarning, match="fewer than 40 are too few"):
        assert kmc.resample(few, draws=50)["posterior"].attrs["total_variation_bound"] == 1.0


@pytest.mark.parametrize("readout", READOUTS)
def test_a_single_draw(idata, readout):
    with pytest.raises(
        ValueError, match="result has 1 draws per chain: expected at least 2; sample for longer"
    ):
        readout(idata.isel(draw=[0]))
    with pytest.raises(
        ValueError,
        match=r"posterior of dimensions \('chain', 'x_dim_0'\): expected 'chain' and 'draw'",
    ):
        readout(idata.isel(draw=0))


@pytest.mark.parametrize(
    "readout", [*READOUTS, partial(kmc.evidence, max_evaluations=10), kmc.plot_surrogate]
)
def test_a_model_that_is_none(idata, readout):
    with pytest.raises(TypeError, match=r"^model=array\(\[0., 0., 0.\]\): expected a callable"):
        readout(idata, model=np.zeros(3))


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (lambda x: np.nan, ValueError, r"f returned nan: expected finite numbers"),
        (
            lambda x: np.inf if x[0] > 0 else 0.0,
            ValueError,
            r"f returned inf: expected finite numbers",
        ),
        (
            lambda x: np.zeros(1 + (x[0] > 0)),
            ValueError,
            r"returned an array of shape .* before: expected the same",
        ),
        (
            lambda x: np.zeros((2, 1 + (x[0] > 0))),
            ValueError,
            r"returned an array of shape .* before: expected the same",
        ),
    ],
)
def test_functions_without_a_value_or_a_shape(idata, f, error, message):
    with pytest.raises(error, match=message):
        kmc.expectations(idata, f)


def test_the_docs_say_that_an_improper_prior_cannot_be_known():
    said = " ".join((kmc.evidence.__doc__ or "").split())
    assert (
        "a prior is proper cannot be known from evaluations: the evidence of an improper one has "
        "no meaning" in said
    )
