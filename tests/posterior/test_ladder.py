"""``kmc.evidence`` from the ladder of parallel tempering, where it is known in closed form."""

import math

import numpy as np
import pytest

import kmc
from kmc.posterior.ladder import mbar
from tests.grids import slow_except

PRIOR_SD, NOISE_SD = 3.0, 0.5
QUIET = {"progress": False, "seed": 1}


def exact_excess(rng, betas, chains, sweeps):
    """l of independent draws at each temperature, for the prior N(0, 9) and l = -(x - 1)² / (2 ·
    .25).
    """
    precision = PRIOR_SD**-2 + betas / NOISE_SD**2
    mean = betas / NOISE_SD**2 / precision
    x = mean + rng.standard_normal((chains, sweeps, len(betas))) / np.sqrt(precision)
    return -0.5 * ((x - 1.0) / NOISE_SD) ** 2


TRUTH = -0.5 / (PRIOR_SD**2 + NOISE_SD**2) + math.log(NOISE_SD / math.hypot(PRIOR_SD, NOISE_SD))


@pytest.mark.parametrize(
    "betas",
    slow_except(
        [[1.0, 0.3, 0.05, 0.0], [1.0, 0.25, 0.05, 0.01], [1.0, 0.0]], [[1.0, 0.3, 0.05, 0.0]]
    ),
)
def test_estimates_scatter_as_their_errors_say(betas):
    rng, betas = np.random.default_rng(1), np.array(betas)
    estimates = [mbar(exact_excess(rng, betas, 2, 150), betas) for _ in range(100)]
    found = np.array([(masses[0], se) for masses, se, _ in estimates])
    z = (found[:, 0] - TRUTH) / found[:, 1]
    assert abs(z.mean()) < 4 / np.sqrt(100)
    assert z.std() == pytest.approx(1.0, abs=4 / np.sqrt(2 * 100))


def test_levels_of_any_size_are_no_problem():
    betas = np.array([1.0, 0.3, 0.0])
    excess = exact_excess(np.random.default_rng(2), betas, 2, 200)
    masses, se, effective = mbar(excess, betas)
    shifted = mbar(excess - 1e5, betas)
    np.testing.assert_allclose(shifted[0] + 1e5 * betas, masses, atol=1e-5)
    assert shifted[1] == pytest.approx(se, rel=0.05)
    assert 100 < effective < 1200


def two_modes(p):
    r = np.array([p["x"] - 6.0, p["x"] + 6.0])
    return float(np.logaddexp(*(-0.5 * r**2 + np.log([0.8, 0.2])))) - 0.5 * math.log(2 * math.pi)


LOG_Z = -0.5 * 36 / 101 - 0.5 * math.log(2 * math.pi * 101)


@pytest.mark.slow
@pytest.mark.parametrize(
    "temperatures",
    slow_except({"to the prior": ((1, 3, 10, 40, math.inf),), "tuned": 5}, {"tuned"}),
)
def test_the_evidence_of_two_modes(temperatures, tmp_path):
    model = kmc.Model(two_modes, parameters={"x": kmc.Normal(0, 10)})
    sampler = kmc.Tempered(temperatures=temperatures)
    idata = kmc.sample(
        model, sampler=sampler, draws=200, warmup=150, store=tmp_path / "run.zarr", **QUIET
    )
    found = kmc.evidence(idata)
    assert found.attrs["warnings"] == [] and "MBAR" in found.attrs["method"]
    assert abs(float(found["log_evidence"][0]) - LOG_Z) < 4 * float(found["se"][0]) < 0.6
    assert np.isnan(found["log_surrogate_mass"][0])
    betas, masses = (found[name].values[0] for name in ("path_inverse_temperature", "path_up"))
    assert betas[0] == 0 < betas[1] and betas[-1] == 1 and masses[0] == pytest.approx(0.0, abs=1e-6)
    assert masses[-1] == pytest.approx(float(found["log_evidence"][0]))
    stored = kmc.evidence(tmp_path / "run.zarr")
    np.testing.assert_array_equal(stored["log_evidence"], found["log_evidence"])


def test_a_likelihood_that_is_zero_in_half_of_the_prior():
    model = kmc.Model(
        log_likelihood=lambda x: 0.0 if x[0] > 0 else -math.inf,
        log_prior=lambda x: -0.5 * (x @ x),
        dim=1,
    )
    idata = kmc.sample(
        model, sampler=kmc.Tempered(temperatures=(1, 2, math.inf)), draws=400, warmup=100, **QUIET
    )
    # of half a Gaussian: here the prior is normalized but for a factor of both
    found = kmc.evidence(idata)
    assert abs(float(found["log_evidence"][0]) - math.log(0.5)) < 4 * float(found["se"][0]) < 0.5


@pytest.mark.slow
def test_independent_runs_have_ladders_of_their_own():
    model = kmc.Model(two_modes, parameters={"x": kmc.Normal(0, 10)})
    options = {"draws": 200, "warmup": 100, "chains": 2, "independent_runs": 2}
    idata = kmc.sample(model, sampler=kmc.Tempered(temperatures=4), **options, **QUIET)
    found = kmc.evidence(idata)
    assert abs(float(found["log_evidence"][0]) - LOG_Z) < 4 * float(found["se"][0]) < 1.0


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_a_ladder_that_ends_too_low_is_said_to():
    prior = {"x": kmc.Normal(0, 10, shape=4)}
    model = kmc.Model(lambda p: -0.5 * float(np.sum((p["x"] / 0.01) ** 2)), parameters=prior)
    idata = kmc.sample(
        model, sampler=kmc.Tempered(temperatures=(1, 2)), draws=60, warmup=50, **QUIET
    )
    with pytest.warns(
        kmc.KmcWarning,
        match="highest temperature, 2, is far from the prior, which .* effective states",
    ):
        kmc.evidence(idata)


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_what_a_ladder_cannot_tell():
    options = {"sampler": kmc.Tempered(temperatures=2), "draws": 30, "warmup": 10, **QUIET}
    apart = kmc.sample(kmc.Model(two_modes, parameters={"x": kmc.Normal(0, 10)}), **options)
    whole = kmc.sample(lambda x: -0.5 * x @ x, dim=1, **options)
    for idata, arguments, message in (
        (whole, {}, "result is of a model whose prior is not known apart"),
        (
            apart,
            {"prior_normalized": False},
            "prior_normalized=False: the ladder of result leads to its prior",
        ),
        (
            apart,
            {"max_evaluations": 10, "model": kmc.Model(lambda x: 0.0, dim=1)},
            "max_evaluations=10: result is of",
        ),
        (apart.isel(draw=slice(0, 10)), {}, "result has 40 draws: expected at least 100"),
    ):
        with pytest.raises(ValueError, match=message):
            kmc.evidence(idata, **arguments)
    with pytest.raises(
        ValueError,
        match="an infinite temperature is the prior, which this model does not have apart",
    ):
        kmc.sample(
            lambda x: -0.5 * x @ x,
            dim=1,
            **{**options, "sampler": kmc.Tempered(temperatures=(1, math.inf))},
        )


def test_chains_that_have_not_converged_have_no_evidence():
    def two_needles(p):
        return float(np.logaddexp(*(-0.5 * ((p["x"] + np.array([-40.0, 40.0])) / 0.3) ** 2)))

    model = kmc.Model(two_needles, parameters={"x": kmc.Normal(0, 30)})
    start = {"x": np.array([-40.0, -40.0, 40.0, 40.0])}
    with pytest.warns(kmc.KmcWarning, match="he chains disagree"):
        idata = kmc.sample(
            model,
            sampler=kmc.Tempered(temperatures=(1, 1.1)),
            draws=60,
            warmup=40,
            initial=start,
            **QUIET,
        )
    with pytest.warns(
        kmc.KmcWarning, match=r"The evidence is not known, as the chains disagree \(R-hat 1.9\)"
    ):
        found = kmc.evidence(idata)
    assert np.isnan(found["log_evidence"][0]) and np.isnan(found["se"][0])
