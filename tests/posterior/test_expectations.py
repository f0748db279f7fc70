"""``kmc.expectations`` on runs."""

import json
import warnings

import numpy as np
import pytest

import kmc
from kmc.control_variates.estimate import Estimate
from kmc.posterior.expectations import _quantiles
from kmc.posterior.results import read
from kmc.samplers.base import MOVES
from kmc.surrogate.coordinates.whitening import Whitening
from tests.posterior.curved import MODEL, TRUTH, log_density

pytestmark = pytest.mark.usefixtures("few_particles")
FEW = {"max_surrogate_draws": 8_000}


@pytest.fixture(scope="module")
def found(idata):
    return kmc.expectations(idata, **FEW)


def test_means_and_sds_are_more_precise_and_within_their_errors(found):
    mean, sd = TRUTH
    assert found.attrs["corrected"] == 1
    assert np.all(np.abs(found["mean"].values - mean) < 4 * found["mcse"].values)
    assert np.all(np.abs(found["sd"].values - sd) < 4 * found["mcse_sd"].values)
    assert np.all(found["mcse"] < 0.15 * found["plain_mcse"])
    np.testing.assert_allclose(found["equivalent_ess"], (found["sd"] / found["mcse"]) ** 2)
    assert list(found["quantity"].values) == ["x[0]", "x[1]"]


def test_quantiles_invert_the_distribution_function(found):
    from scipy.stats import norm

    exact = 2 * norm.ppf([0.05, 0.5, 0.95])
    quantiles, errors = (
        found[name].sel(quantity="x[0]").values for name in ("quantiles", "mcse_quantiles")
    )
    assert np.all(np.abs(quantiles - exact) < 4 * errors)
    assert np.all(errors < 0.06)


class Known:
    """A number with the density 4, then 1/4 at probabilities u under a uniform surrogate, and draws
    of it.

    The function is exact, but for what it adds beyond ``jump``.
    """

    doubts = ""
    constant = np.zeros(1, bool)

    def __init__(self, jump=None, error=1e-3):
        self._jump, self._error = jump, error
        level = np.random.default_rng(1).permutation(np.arange(1000) + 0.5) / 1000
        self.values = np.interp(level, [0.0, 0.8, 1.0], [0.0, 0.2, 1.0]).reshape(4, 250, 1)
        self.n_draws = 1000

    def sorted(self, i):
        u = (np.arange(5000) + 0.5) / 5000
        return u, u

    def below(self, i, limits):
        found = np.interp(limits, [0.0, 0.2, 1.0], [0.0, 0.8, 1.0])
        if self._jump is not None:
            found = np.where(limits < self._jump, 0.02 * limits, 0.2 + 0.8 * limits)
        return Estimate(found, np.full(len(limits), self._error**2))


def test_quantiles_where_the_target_has_more_mass_than_the_surrogate():
    levels = np.array([0.05, 0.5, 0.95])
    found, error, ess = _quantiles([Known()], levels, 1)
    np.testing.assert_allclose(
        found[:, 0], np.interp(levels, [0.0, 0.8, 1.0], [0.0, 0.2, 1.0]), atol=1e-4
    )
    np.testing.assert_allclose(error[:, 0], 1e-3 * np.array([1.0, 1.0, 4.0]), rtol=0.01)
    np.testing.assert_allclose(ess[:, 0], levels * (1 - levels) / 1e-6)


def test_a_quantile_that_the_corrected_function_does_not_have_is_that_of_the_draws():
    (found,), (error,), _ = _quantiles([Known(jump=0.5)], np.array([0.3]), 1)
    assert found[0] == pytest.approx(0.075, abs=1e-3)
    assert error[0] == pytest.approx(0.25 * np.sqrt(0.3 * 0.7 / 1000), rel=0.7) and error[0] > 1e-4


@pytest.mark.slow
def test_a_number_that_is_the_same_at_all_draws_has_no_error(idata):
    """Of a rare event that proposals had, and no draw."""
    x, y = idata["posterior"]["x"].values, idata["proposals"]["x"].values
    excess = {
        (sign, i): (sign * y[:, 1:, i]).max() - (sign * x[..., i]).max()
        for sign in (-1, 1)
        for i in (0, 1)
    }
    sign, i = max(excess, key=excess.get)
    level = (sign * x[..., i]).max() + 1e-9
    assert (sign * y[:, 1:, i]).max() > level
    with pytest.warns(
        kmc.KmcWarning, match="All draws have the same value of 1 of the 2 quantities"
    ):
        found = kmc.expectations(
            idata, lambda x: np.array([x[0], float(sign * x[i] > level)]), **FEW
        )
    for name in ("sd", "mcse", "mcse_sd"):
        assert np.isfinite(found[name][0]) and np.isnan(found[name][1])
    assert np.all(np.isfinite(found["mcse_quantiles"].values[:, 0]))
    assert np.all(np.isnan(found["mcse_quantiles"].values[:, 1]))


def test_a_netcdf_file_and_a_zarr_tree_are_read_as_the_same(idata, tmp_path):
    import arviz
    import xarray

    idata.to_netcdf(tmp_path / "run.nc")
    tree = idata.to_datatree() if hasattr(idata, "to_datatree") else idata
    tree.to_zarr(tmp_path / "tree.zarr")
    (whole,) = read(idata, None).replicates
    for result in (
        arviz.from_netcdf(tmp_path / "run.nc"),
        xarray.open_datatree(tmp_path / "tree.zarr", engine="zarr"),
    ):
        (found,) = read(result, None).replicates
        for name in "draws", "log_density", "proposals", "proposal_log_density", "move":
            np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))
        x = whole.draws[0]
        np.testing.assert_array_equal(found.density.log_density(x), whole.density.log_density(x))


@pytest.mark.slow
def test_a_vector_of_functions_within_a_time(idata, found):
    many = kmc.expectations(
        idata,
        lambda x: np.column_stack([x[:, 0] * x[:, 1], x[:, 0]]),
        vectorized=True,
        quantiles=(),
        max_time=1e-3,
    )
    assert abs(float(many["mean"][0])) < 4 * float(many["mcse"][0])
    error = np.hypot(float(many["mcse"][1]), float(found["mcse"][0]))
    assert float(many["mean"][1]) == pytest.approx(float(found["mean"][0]), abs=4 * error)
    assert many["quantiles"].shape == (0, 2)
    assert many.attrs["n_surrogate_draws"] < 400_000  # as many as without a limit


@pytest.mark.slow
def test_parameters_with_names(named):
    found = kmc.expectations(named, **FEW)
    assert list(found["quantity"].values) == ["a[N]", "a[S]", "b"]
    assert np.all(np.abs(found["mean"].values - [0, 0, 1]) < 4 * found["mcse"].values)
    assert np.all(np.abs(found["sd"].values - [1, 1, 1]) < 4 * found["mcse_sd"].values)
    of_user = kmc.expectations(
        named, lambda p: p["b"] * p["a"][0], model=MODEL, quantiles=(), **FEW
    )
    assert abs(float(of_user["mean"][0])) < 4 * float(of_user["mcse"][0])


@pytest.mark.slow
def test_several_runs_and_independent_runs(idata, found):
    other = kmc.sample(
        log_density,
        dim=2,
        draws=None,
        max_evaluations=4000,
        seed=3,
        progress=False,
        independent_runs=2,
    )
    both = kmc.expectations([idata, other], **FEW)
    mean, sd = TRUTH
    assert np.all(np.abs(both["mean"].values - mean) < 4 * both["mcse"].values)
    assert np.all(np.abs(both["sd"].values - sd) < 4 * both["mcse_sd"].values)
    assert np.all(both["mcse"] < found["mcse"])
    assert both.attrs["n_draws"] == 4 * (
        idata["posterior"].sizes["draw"] + other["posterior"].sizes["draw"]
    )


def tampered(idata):
    """The result with a surrogate that is wrong: it is moved by 1.5 standard deviations in each
    coordinate.
    """
    from kmc.run.frozen_surrogates import as_group, decoded, flattened

    frozen = decoded(idata["surrogate"])[0]
    (component,) = frozen.densities[0].components
    origin = component.whitening.back(np.full((1, 2), 1.5))[0]
    moved = Whitening(origin, component.whitening.matrix, component.whitening.inverse)
    wrong = type(component)(component.transport, moved, component.jit_state)
    group = as_group(flattened([type(frozen.densities[0])((wrong,))], None), frozen.chains)
    copy = {
        name: idata[name].copy(deep=True) for name in ("posterior", "sample_stats", "proposals")
    }
    return Tampered(copy | {"surrogate": group}, dict(idata.attrs))


class Tampered(dict):
    def __init__(self, groups, attrs):
        super().__init__(groups)
        self.attrs = attrs

    def groups(self):
        return list(self)


@pytest.mark.slow
def test_a_surrogate_that_the_proposals_were_not_drawn_from_is_noticed(idata):
    wrong = tampered(idata)
    with pytest.warns(
        kmc.KmcWarning, match=r"The surrogate is not used: (its means and those|it is too low)"
    ):
        found = kmc.expectations(wrong, model=kmc.Model(log_density, dim=2), **FEW)
    assert found.attrs["corrected"] == 0 and len(found.attrs["warnings"]) == 1
    np.testing.assert_allclose(found["mean"], idata["posterior"]["x"].mean(("chain", "draw")))
    np.testing.assert_allclose(found["mcse"], found["plain_mcse"], rtol=1e-12)
    plain = np.quantile(idata["posterior"]["x"].values[..., 0], [0.05, 0.5, 0.95])
    np.testing.assert_allclose(found["quantiles"].values[:, 0], plain, atol=0.1)


@pytest.mark.slow
def test_few_draws_give_plain_averages(monkeypatch):
    monkeypatch.setattr("kmc.posterior.learned.LARGEST_SE", 0.0)
    idata = kmc.sample(log_density, dim=2, draws=30, max_evaluations=600, seed=1, progress=False)
    idata = idata.isel(draw=slice(0, 9))
    with pytest.warns(kmc.KmcWarning, match=r"there are 36 draws, and fewer than 40 are too few"):
        found = kmc.expectations(idata)
    np.testing.assert_allclose(found["mean"], idata["posterior"]["x"].mean(("chain", "draw")))
    assert found.attrs["n_surrogate_draws"] == 0


@pytest.mark.slow
def test_errors_of_less_than_a_hundred_draws_are_rough(monkeypatch):
    monkeypatch.setattr("kmc.posterior.learned.LARGEST_SE", 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kmc.KmcWarning)
        idata = kmc.sample(
            log_density, dim=2, draws=30, max_evaluations=400, seed=1, progress=False
        )
    idata = idata.isel(draw=slice(0, 20))
    with pytest.warns(
        kmc.KmcWarning, match="independent ones in the worst parameter: the stated errors are rough"
    ):
        found = kmc.expectations(idata, **FEW)
    assert found.attrs["corrected"] == 1
    mean, sd = TRUTH
    assert np.all(np.abs(found["mean"].values - mean) < 0.1 * sd) and np.all(
        np.abs(found["sd"].values / sd - 1) < 0.1
    )
    assert np.all(found["mcse"] < 0.5 * found["plain_mcse"])


@pytest.mark.slow
def test_an_interrupted_run_will_do():
    def stop(progress):
        return progress.draw >= 60

    idata = kmc.sample(
        log_density, dim=2, draws=500, max_evaluations=3000, seed=1, progress=False, callback=stop
    )
    assert kmc.expectations(idata, **FEW).attrs["corrected"] == 1


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"f": 3}, TypeError, r"f=3: expected a function of the parameters"),
        ({"f": lambda x: np.nan}, ValueError, r"f returned nan: expected finite numbers"),
        ({"f": lambda x: "a"}, TypeError, r"f returned 'a': expected a real number"),
        (
            {"f": lambda x: np.zeros(1 + (x[0] > 0))},
            ValueError,
            r"f returned an array of shape .* before",
        ),
        ({"f": lambda x: x[:3], "vectorized": True}, ValueError, r"f returned 3 values for"),
        (
            {"quantiles": (0.5, 1.2)},
            ValueError,
            r"quantiles=\(0.5, 1.2\): expected numbers between 0 and 1",
        ),
        ({"quantiles": "all"}, TypeError, r"quantiles='all': expected probabilities"),
        ({"max_surrogate_draws": 0}, ValueError, r"max_surrogate_draws=0"),
        ({"max_time": -1}, ValueError, r"max_time=-1: expected a positive"),
        ({"vectorized": 3}, TypeError, r"vectorized=3: expected True or False"),
        ({"model": 3}, TypeError, r"model=3: expected a callable"),
    ],
)
def test_bad_arguments(idata, arguments, error, message):
    with pytest.raises(error, match=message):
        kmc.expectations(idata, **arguments)


def test_results_without_a_surrogate(idata):
    other = kmc.sample(log_density, dim=2, draws=50, sampler="random-walk", seed=1, progress=False)
    with pytest.raises(
        ValueError, match=r"result has no groups proposals and surrogate.*sampler='random-walk'"
    ):
        kmc.expectations(other)
    with pytest.raises(TypeError, match=r"result=float: expected what kmc.sample returned"):
        kmc.expectations(3.0)
    with pytest.raises(ValueError, match=r"result=\[\]: expected at least one"):
        kmc.expectations([])
    with pytest.raises(ValueError, match=r"result\[1\] has no groups"):
        kmc.expectations([idata, other])


def test_what_is_kept_says_which_moves_were_runs(idata):
    moves = json.dumps(sorted(set(idata["proposals"]["move"].values.ravel().tolist())))
    assert str(MOVES.index("surrogate")) in moves


@pytest.fixture(scope="module")
def noisy():
    rng = np.random.default_rng(0)
    model = kmc.Model(
        lambda x: log_density(x) + 0.7 * rng.standard_normal() - 0.245, dim=2, noisy=True
    )
    return kmc.sample(model, draws=None, max_evaluations=1000, seed=2, progress=False)


@pytest.mark.slow
def test_noisy_values_are_handled(noisy):
    """An estimate is kept with its state, so that the identities hold for it as they do for exact
    values.
    """
    found = kmc.expectations(noisy, quantiles=(), **FEW)
    mean, sd = TRUTH
    assert np.all(np.abs(found["mean"].values - mean) < 4 * found["mcse"].values)
    assert np.all(np.abs(found["sd"].values - sd) < 4 * found["mcse_sd"].values)
    # Little is gained with so much noise, and both errors are estimates from a few hundred
    # effective draws.
    assert np.all(found["mcse"] < 1.2 * found["plain_mcse"])


@pytest.mark.slow
def test_the_evidence_of_noisy_values(noisy):
    """It is that of the density whose estimates they are: the noise has mean one."""
    found = kmc.evidence(noisy)
    assert (
        abs(float(found["log_evidence"][0]) - np.log(4 * np.pi)) < 4 * float(found["se"][0]) < 0.5
    )


@pytest.mark.slow
def test_discrete_blobs_make_no_difference(idata, found):
    """A run with integers beside the log-density has the same draws and read-outs."""

    def with_blobs(x):
        return log_density(x), {"sign": int(x[0] > 0), "count": np.array([int(10 * x[1]), 3])}

    other = kmc.sample(with_blobs, dim=2, draws=None, max_evaluations=2000, seed=1, progress=False)
    assert other["blobs"]["sign"].dtype.kind == "i"
    assert kmc.expectations(other, **FEW).equals(found)
    assert other["proposals"].equals(idata["proposals"]) and other["surrogate"].equals(
        idata["surrogate"]
    )
