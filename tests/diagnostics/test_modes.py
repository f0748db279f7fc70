import re

import numpy as np
import pytest
import xarray
from scipy.signal import lfilter

import kmc
from kmc.convergence import ess_and_rhat
from kmc.diagnostics import slow_modes
from kmc.diagnostics.modes import kept_modes
from kmc.run.results import container
from tests.grids import slow_except


def autoregressions(shape, phi, seed):
    """Stationary chains (chains, draws, d) of variance one."""
    noise = np.random.default_rng(seed).standard_normal(shape)
    noise[:, 1:] *= np.sqrt(1 - phi**2)
    return lfilter([1.0], [1.0, -phi], noise, axis=1)


def hidden_sign(sign, phi, rho, dim, seed):
    """Standard normal coordinates, the first two with the correlation sign · rho; ``sign`` (chains,
    draws).
    """
    x = autoregressions((*sign.shape, dim), phi, seed)
    x[..., 1] = sign * rho * x[..., 0] + np.sqrt(1 - rho**2) * x[..., 1]
    return x


SIGNS = [1, -1, 1, -1], [1, 1, -1, -1], [1, 1, 1, -1], [-1, 1, 1, 1]


@pytest.mark.parametrize("signs", slow_except(SIGNS, SIGNS[2:3]))
def test_a_frozen_correlation_that_no_coordinate_shows(signs):
    sign = np.repeat(np.array(signs, float)[:, None], 2000, axis=1)
    x = hidden_sign(sign, 0.7, 0.95, 4, 1)
    ess, rhat = ess_and_rhat(x)
    assert rhat.max() < 1.01 and ess.min() > 1000
    modes = slow_modes(x, 3, n_basis=100)
    assert modes["rhat"].values[0] > 1.2
    truth = ess_and_rhat(sign[:, 1000:, None] + 1e-9 * x[:, 1000:, :1])[0][0]
    assert truth / 2 < modes["ess"].values[0] < 2 * truth
    assert abs(np.corrcoef(modes["value"].values[..., 0].ravel(), sign.ravel())[0, 1]) > 0.7
    assert np.abs(modes["correlation"].values[0]).max() < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_frozen_correlation_of_two_among_twenty(seed):
    """Pairs at any one lagtime hardly find it: R-hat 1.00 and 1.10."""
    sign = np.repeat(np.array([1.0, -1.0, 1.0, -1.0])[:, None], 1000, axis=1)
    x = hidden_sign(sign, 0.7, 0.95, 20, seed)
    modes = slow_modes(x, 1)
    assert modes["rhat"].values[0] > 1.2
    assert modes["lagtime"].values[0] == 8
    assert max(slow_modes(x, 1, lag)["rhat"].values[0] for lag in (1, 8)) < 1.15


@pytest.mark.parametrize("seed", slow_except(range(4), {3}))
def test_no_alarm_from_independent_draws(seed):
    """Also with tails without variance, and with one number twice as often as the others."""
    rng = np.random.default_rng(seed)
    draws = {
        "a": rng.standard_t(1, (4, 500, 2)),
        "b": rng.integers(0, 3, (4, 500)),
        "c": rng.gamma(0.5, 1, (4, 500)),
    }
    modes = slow_modes(draws, n_basis=60)
    assert modes["rhat"].max() < 1.02
    assert modes["ess"].min() > 500  # of 1000 that are judged


def test_healthy_chains_get_a_verdict_in_words():
    modes = slow_modes(np.random.default_rng(3).standard_normal((4, 500, 2)), n_basis=40)
    assert modes.attrs["verdict"].startswith(
        "No slow mode was found: the chains agree on the slowest of all (R-hat 1.0"
    )
    assert set(modes["verdict"].values) == {"mixed"}
    assert np.all(modes["timescale"] < 2)  # no NaN


def test_a_mode_that_has_not_mixed_is_named():
    rng = np.random.default_rng(4)
    apart = {
        "a": rng.standard_normal((4, 300)) + 3 * np.arange(4)[:, None],
        "b": rng.standard_normal((4, 300)),
    }
    modes = slow_modes(apart, 2, n_basis=40)
    assert re.search(
        r"not mixed: mode 0 \(R-hat .* 600 .*\) correlates with a \([+-]0.9\d\)\.",
        modes.attrs["verdict"],
    )
    assert modes["verdict"].values[0] == "not mixed"
    sign = np.repeat(np.array([1.0, -1.0, 1.0, -1.0])[:, None], 600, axis=1)
    hidden = slow_modes(hidden_sign(sign, 0.5, 0.95, 3, 1), 1, n_basis=60)
    assert "correlates with no single parameter" in hidden.attrs["verdict"]


def test_few_draws_are_told_from_bad_ones():
    modes = slow_modes(autoregressions((4, 400, 1), 0.8, 0), 1, n_basis=20)
    assert modes.attrs["verdict"].startswith("The chains agree, but on few effective draws")
    assert list(modes["verdict"].values) == ["few effective draws"]


def test_the_modes_of_autoregressions_are_judged_without_bias():
    x = autoregressions((4, 5000, 2), 0.9, 4)
    modes = slow_modes(x, 2, lagtime=5)
    truth = 0.9**5
    error = np.sqrt((1 + truth**2) / (1 - truth**2) / 10_000) * 3  # Bartlett, at least
    np.testing.assert_allclose(modes["eigenvalue"], truth, atol=3 * error)
    np.testing.assert_allclose(modes["timescale"], -1 / np.log(0.9), rtol=0.15)
    np.testing.assert_array_equal(modes["lagtime"], 5)
    expected = 10_000 * (1 - 0.9) / (1 + 0.9)
    assert 0.6 * expected < modes["ess"].values[0] < 1.4 * expected


def test_the_dataset():
    rng = np.random.default_rng(5)
    slow = autoregressions((2, 3000, 1), 0.98, 6)[..., 0]
    data = {"mu": slow, "theta": rng.standard_normal((2, 3000, 2)), "fixed": np.ones((2, 3000))}
    modes = slow_modes(data, 3, n_basis=60)
    assert isinstance(modes, xarray.Dataset)
    assert modes["value"].dims == ("chain", "draw", "mode")
    assert modes["value"].shape == (2, 3000, 3)
    assert list(modes["parameter"].values) == ["mu", "theta[0]", "theta[1]", "fixed"]
    correlation = modes["correlation"].sel(mode=0).values
    assert abs(correlation[0]) > 0.95
    assert np.abs(correlation[1:3]).max() < 0.15
    assert np.isnan(correlation[3])
    assert np.all(np.diff(modes["ess"]) >= 0)
    value = modes["value"].values.reshape(-1, 3)
    assert np.abs(np.corrcoef(value.T) - np.eye(3)).max() < 0.7
    assert list(slow_modes(data, 1, var_names=["theta"], n_basis=60)["parameter"].values) == [
        "theta[0]",
        "theta[1]",
    ]


def test_monotone_functions_of_parameters_change_nothing():
    x = autoregressions((4, 400, 2), 0.5, 7)
    one = slow_modes(x, 2, n_basis=40)
    two = slow_modes(
        np.stack([np.exp(3 * x[..., 0]), 1e5 - x[..., 1]], axis=-1) * [1, -1] + [0, 2e5],
        2,
        n_basis=40,
    )
    np.testing.assert_allclose(two["ess"], one["ess"], rtol=1e-4)


def test_one_chain_is_judged_by_its_second_half():
    sign = np.repeat([[1.0, -1.0, 1.0, -1.0]], 500, axis=1).reshape(1, -1)
    modes = slow_modes(hidden_sign(sign, 0.5, 0.95, 2, 8), 1)
    assert modes["rhat"].values[0] > 1.2


def test_draws_far_from_those_of_the_fit_cause_no_warning(recwarn):
    """Nobody can act on it: the half that is fitted is chosen here."""
    x = autoregressions((1, 1000, 2), 0.5, 1)
    x[..., 1] = x[..., 0] + 0.1 * x[..., 1]
    x[0, 900] = 2.0, -2.0
    slow_modes(x, 1, lagtime=1, n_basis=10, random_state=0)
    assert not recwarn.list


def test_chains_that_never_move():
    x = np.repeat(np.random.default_rng(15).standard_normal((4, 1, 2)), 100, axis=1)
    assert np.all(slow_modes(x, 2)["rhat"] == np.inf)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_modes": 0}, ValueError, "n_modes=0"),
        ({"n_basis": 1}, ValueError, "n_basis=1"),
        ({"lagtime": "long"}, ValueError, "lagtime='long': expected 'auto' or a whole number"),
        ({"lagtime": 0}, ValueError, "lagtime=0"),
        ({"lagtime": 2.0}, TypeError, "lagtime=2.0"),
        ({"lagtime": 26}, ValueError, "lagtime=26: expected at most a quarter of the 100 draws"),
        ({"data": np.ones((2, 100))}, ValueError, "no parameter moves"),
        (
            {"data": np.arange(14.0).reshape(2, 7)},
            ValueError,
            "7 draws in each of 2 chains: expected at least 8",
        ),
        (
            {"data": np.arange(15.0).reshape(1, 15)},
            ValueError,
            "15 draws in each of 1 chains: expected at least 16",
        ),
    ],
)
def test_bad_input(options, error, message):
    data = np.random.default_rng(9).standard_normal((2, 100, 2))
    with pytest.raises(error, match=message):
        slow_modes(**({"data": data} | options))


def containers(x):
    """A result of either version of ArviZ."""
    posterior = xarray.Dataset({"x": (("chain", "draw", "d"), x)})
    return container({"posterior": posterior}, {}), xarray.DataTree.from_dict(
        {"posterior": posterior}
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", [0, 1])
def test_slow_modes_as_a_group_of_the_result(kind, tmp_path):
    x = np.random.default_rng(15).standard_normal((4, 100, 2))
    idata = containers(x)[kind]
    assert kept_modes(idata) is None
    slow_modes(idata, 1, n_basis=20, add_group=True)
    found = slow_modes(idata, 3, n_basis=20, add_group=True)  # instead of the first
    assert kept_modes(idata).identical(found)
    xarray.testing.assert_identical(idata["slow_modes"]["value"], found["value"])
    assert idata["slow_modes"].attrs["verdict"] == found.attrs["verdict"]
    assert kept_modes(idata, ["x[0]", "x[1]"]) is not None
    assert kept_modes(idata, ["x[0]"]) is None
    idata["posterior"] = idata["posterior"].isel(draw=slice(50))
    assert kept_modes(idata) is None  # of other draws
    idata.to_netcdf(tmp_path / "draws.nc")


def test_only_results_have_groups():
    with pytest.raises(TypeError, match="add_group=True: data is a ndarray, which has no groups"):
        slow_modes(np.ones((4, 100, 2)), add_group=True)


def check(modes, names):
    assert list(modes["parameter"].values) == names
    assert modes["rhat"].max() < 1.2
    assert np.all(np.isfinite(modes["ess"]))


@pytest.mark.arviz
def test_results_of_kmc():
    idata = kmc.sample(
        lambda x: -0.5 * x @ x, dim=2, draws=400, sampler="random-walk", seed=1, progress=False
    )
    check(slow_modes(idata, 2), ["x[0]", "x[1]"])


@pytest.mark.arviz
def test_results_of_emcee():
    emcee, arviz = pytest.importorskip("emcee"), pytest.importorskip("arviz")
    if not hasattr(arviz, "from_emcee"):
        pytest.skip("this ArviZ has no from_emcee")
    start = np.random.default_rng(13).standard_normal((8, 2))
    sampler = emcee.EnsembleSampler(8, 2, lambda x: -0.5 * x @ x)
    sampler.random_state = np.random.RandomState(13).get_state()
    sampler.run_mcmc(start, 1000)
    check(slow_modes(arviz.from_emcee(sampler, var_names=["a", "b"]), 2), ["a", "b"])


@pytest.mark.arviz
@pytest.mark.filterwarnings("ignore")
def test_results_of_pymc():
    pymc = pytest.importorskip("pymc")
    with pymc.Model():
        pymc.Normal("mu", shape=2)
        pymc.HalfNormal("tau")
        options = {"progressbar": False, "random_seed": 14, "compute_convergence_checks": False}
        idata = pymc.sample(500, tune=300, chains=2, cores=1, step=pymc.Metropolis(), **options)
    check(slow_modes(idata, 2), ["mu[0]", "mu[1]", "tau"])
