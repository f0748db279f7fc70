"""HMC with the user's gradient, and what NUTS shares with it. tests/correctness has their stationary distributions."""

import numpy as np
import pytest

import kmc
from kmc.mcmc import HMC, NUTS, SamplerSetup
from kmc.mcmc.hmc import Phase, leapfrog
from kmc.mcmc.hmc_adaptation import Adaptation, DualAveraging
from kmc.targets.toys import Gaussian
from tests.mcmc import setups
from tests.oracles.mcmc import assert_standard

NORMAL = Gaussian(3, correlation=0.6, spread=3.0)
PRECISION = np.linalg.inv(NORMAL.covariance)
QUIET = {"progress": False, "seed": 1}
BOTH = pytest.mark.parametrize("cls", [HMC, NUTS])
pytestmark = pytest.mark.filterwarnings("ignore::kmc.KmcWarning")


def slope(x):
    return -PRECISION @ x


def quartic(x):
    return -(x**3) - 0.5 * np.sin(x[::-1])


def started(sampler, target=NORMAL, chains=4, warmup=100, noisy=False):
    return setups.started(sampler, target, chains=chains, warmup=warmup, noisy=noisy)


def drive(state, draws, target=NORMAL):
    made = []
    while len(made) < draws:
        step = state.advance(np.array([target(x) for x in state.propose()]))
        made += [] if step is None else [step]
    return made


def test_paths_are_reversible_and_preserve_volume():
    rng, step = np.random.default_rng(2), np.array([0.1, 0.3])
    for _ in range(5):
        x, p = rng.standard_normal(2), rng.standard_normal(2)
        end = leapfrog(quartic, Phase(x, p, quartic(x)), step=step, n_steps=7)
        for back in (
            leapfrog(quartic, end._replace(momentum=-end.momentum), step=step, n_steps=7),
            leapfrog(quartic, end, step=-step, n_steps=7),
        ):
            np.testing.assert_allclose(back.x, x, atol=1e-12)
            np.testing.assert_allclose(np.abs(back.momentum), np.abs(p), atol=1e-12)

        def flow(v):
            end = leapfrog(quartic, Phase(v[:2], v[2:], quartic(v[:2])), step=step, n_steps=7)
            return np.concatenate([end.x, end.momentum])

        v, h = np.concatenate([x, p]), 1e-5
        jacobian = np.array([(flow(v + h * e) - flow(v - h * e)) / (2 * h) for e in np.eye(4)])
        assert abs(np.linalg.det(jacobian)) == pytest.approx(1.0, abs=1e-6)


def test_the_error_of_the_energy_is_of_second_order():
    x, p = np.array([0.4, -0.7]), np.array([1.0, 0.2])

    def error(n):
        end = leapfrog(lambda x: -(x**3), Phase(x, p, -(x**3)), step=np.full(2, 1.0 / n), n_steps=n)
        return np.sum(end.x**4) / 4 + end.momentum @ end.momentum / 2 - np.sum(x**4) / 4 - p @ p / 2

    assert error(20) / error(40) == pytest.approx(4.0, rel=0.1)


def test_hopeless_paths():
    start = Phase(np.ones(2), np.ones(2), np.ones(2))
    assert leapfrog(lambda x: 1e9 * x, start, step=np.ones(2), n_steps=5) is None
    assert leapfrog(lambda x: np.full(2, np.nan), start, step=np.ones(2), n_steps=1) is None


@BOTH
def test_moments_of_a_gaussian(cls):
    state = started(cls(slope), chains=4, warmup=100)
    drive(state, 100)
    x = np.array([step.position for step in drive(state, 400)])
    z = x.reshape(-1, 3) / np.sqrt(np.diag(NORMAL.covariance))
    ess = kmc.ess.worst_bulk_ess(x.swapaxes(0, 1))
    assert ess > 200
    for j in range(3):
        assert_standard(z[:, j].mean() * np.sqrt(ess))
        assert_standard((np.mean(z[:, j] ** 2) - 1.0) / np.sqrt(2.0 / 100))


@BOTH
def test_gradients_are_counted(cls):
    calls = []

    def counted(x):
        calls.append(x)
        return slope(x)

    state = started(cls(counted))
    steps = drive(state, 150)
    n_steps = sum(int(step.stats["n_steps"].sum()) for step in steps)
    assert len(calls) == state.report()["n_gradients"] == n_steps + 2 * 4  # the check, and the first states
    assert all(np.all(step.stats["move"] == kmc.mcmc.base.MOVES.index(cls.name)) for step in steps)


@BOTH
def test_the_step_size_and_the_metric_are_tuned_and_then_fixed(cls):
    sd = np.array([1.0, 10.0, 0.2])
    target = lambda x: -0.5 * float(np.sum((x / sd) ** 2))  # noqa: E731
    initial = np.random.default_rng(0).standard_normal((4, 3))  # of a wrong scale
    state = cls(lambda x: -x / sd**2, target_acceptance=0.7).start(
        SamplerSetup(3, 4, initial, np.array([target(x) for x in initial]), None, 200, None, np.random.SeedSequence(1))
    )
    drive(state, 200, target)
    adaptation = state._adaptation if cls is NUTS else state._paths.adaptation
    np.testing.assert_allclose(adaptation.sd, sd, rtol=0.35)
    tuned = adaptation.step_size
    rates = np.array([step.stats["acceptance_rate"] for step in drive(state, 100, target)])
    assert abs(rates.mean() - 0.7) < 0.2 and not state.warming_up
    assert adaptation.step_size == tuned


def test_dual_averaging_finds_a_rate():
    averaging = DualAveraging(5.0, 0.8)
    for _ in range(300):
        averaging.learn(float(np.exp(-averaging.step_size)))
    assert np.exp(-averaging.average) == pytest.approx(0.8, abs=0.02)


def test_windows_fill_the_warm_up():
    for warmup, ends in ((1000, [100, 150, 250, 450, 950]), (100, [80]), (20, []), (0, [])):
        adaptation, found = Adaptation(np.ones(1), 0.8, warmup), []
        for sweep in range(1, warmup + 1):
            before = adaptation.sd
            adaptation.learn(np.full((2, 1), float(sweep)), 0.8, sweep)
            found += [sweep] if adaptation.sd is not before else []
        assert found == ends


@BOTH
def test_a_resumed_run_is_the_same(cls, tmp_path):
    """With a function that cannot be pickled."""
    options = {"dim": 3, "draws": 40, "warmup": 30, "sampler": cls(lambda x: slope(x)), **QUIET}
    expected = kmc.sample(NORMAL, **options)
    path = tmp_path / "run.zarr"
    kmc.sample(NORMAL, store=path, callback=lambda record: record.draw >= 15, **options)
    resumed = kmc.sample(NORMAL, store=path, resume=True, **options)
    np.testing.assert_array_equal(resumed.posterior["x"].values, expected.posterior["x"].values)
    assert resumed.attrs["n_evaluations"] == expected.attrs["n_evaluations"]


@BOTH
def test_a_wrong_gradient_is_reported_and_no_evaluation_is_lost(cls):
    calls = []

    def target(x):
        calls.append(x)
        return NORMAL(x)

    options = {"dim": 3, "draws": None, "max_evaluations": 150, "chains": 2, "save_warmup": True, **QUIET}
    with pytest.warns(kmc.KmcWarning, match="The gradient disagrees"):
        idata = kmc.sample(target, sampler=cls(lambda x: -slope(x)), **options)
    assert len(calls) == idata.attrs["n_evaluations"] <= 150
    assert idata.attrs["gradient_error"] == pytest.approx(2.0, abs=1e-3)
    assert kmc.sample(target, sampler=cls(slope), **options).attrs["gradient_error"] < 1e-5


def test_noisy_values():
    state = started(HMC(slope), noisy=True)
    assert len(drive(state, 3)) == 3 and np.isnan(state.report()["gradient_error"])
    with pytest.raises(ValueError, match=r"noisy=True: kmc.NUTS needs exact.*kmc.HMC does not"):
        started(NUTS(slope), noisy=True)


@BOTH
def test_a_gradient_of_the_wrong_shape(cls):
    with pytest.raises(ValueError, match=r"gradient returned an array of shape \(2,\)"):
        kmc.sample(NORMAL, dim=3, sampler=cls(lambda x: x[:2]), draws=5, **QUIET)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: HMC(None), TypeError, "gradient=None: expected a function"),
        (lambda: NUTS(3.0), TypeError, "gradient=3.0: expected a function"),
        (lambda: HMC(slope, trajectory_length=0), ValueError, "trajectory_length=0"),
        (lambda: HMC(slope, target_acceptance=1), ValueError, "target_acceptance=1"),
        (lambda: NUTS(slope, target_acceptance="high"), TypeError, "target_acceptance='high'"),
        (lambda: NUTS(slope, max_depth=0), ValueError, "max_depth=0"),
    ],
)
def test_wrong_options(make, error, message):
    with pytest.raises(error, match=message):
        make()
