"""A log-density with the wrong sign is distinguished from a proper one with a distant start."""

import math

import numpy as np
import pytest

import kmc
from kmc.run.ascent import Ascent
from tests.grids import slow_except

SMALL = kmc.KernelHMC()
WRONG = r"^the log-density rises without bound along .*is its sign right\?"

pytestmark = [
    pytest.mark.filterwarnings("ignore::kmc.KmcWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # of squares of numbers beyond 1e154
]


def run(target, sampler=SMALL, **options):
    return kmc.sample(
        target, **{"sampler": sampler, "draws": 50, "seed": 1, "progress": False} | options
    )


@pytest.mark.slow
@pytest.mark.parametrize("dim", [1, 3])
def test_a_wrong_sign_is_reported(dim):
    seen = []

    def log_density(x):
        seen.append(x)
        return 0.5 * float(x @ x)

    with pytest.raises(kmc.EvaluationError, match=WRONG) as caught:
        run(log_density, dim=dim, max_evaluations=3000)
    assert "x[0]" in str(caught.value) or dim > 1
    assert caught.value.idata.attrs["n_evaluations"] == len(seen) <= 3000


@pytest.mark.parametrize("sampler", ["adaptive-metropolis", "random-walk"])
def test_other_samplers_tell_it_too(sampler):
    with pytest.raises(kmc.EvaluationError, match=WRONG):
        run(lambda x: 0.5 * float(x @ x), sampler, dim=2)


def test_the_parameter_is_named():
    def log_density(p):
        return 0.5 * p["b"][1] ** 2 - p["a"] ** 2 - p["b"][0] ** 2 - p["s"]

    parameters = {"a": kmc.Real(), "b": kmc.Real(2), "s": kmc.Positive()}
    with pytest.raises(kmc.EvaluationError, match=r"without bound along b\[1\] \(") as caught:
        run(
            kmc.Model(log_density, parameters=parameters),
            "adaptive-metropolis",
            max_evaluations=3000,
        )
    assert set(caught.value.parameters) == {"a", "b", "s"}


def test_an_overflow_of_a_proper_density_is_no_wrong_sign():
    with pytest.raises(kmc.EvaluationError, match="raised OverflowError"):
        run(
            lambda x: x[0] - math.exp(x[0]), initial=np.array([[0.0], [1.0], [2.0], [750.0]]), dim=1
        )
    model = kmc.Model(lambda x: -math.exp(abs(x[0])), dim=1)
    with pytest.raises(kmc.EvaluationError, match="raised OverflowError"):
        run(model, kmc.RandomWalkMetropolis(scale=1e3), initial=np.ones((4, 1)))


@pytest.mark.parametrize("exp", [math.exp, np.exp])
def test_a_log_density_whose_own_arithmetic_overflows(exp):
    """Python's floats raise OverflowError where numpy's are infinite."""
    model = kmc.Model(lambda x: exp(x[0]), dim=1, nonfinite="raise")
    with pytest.raises(kmc.EvaluationError, match=WRONG):
        run(model, "adaptive-metropolis", max_evaluations=20_000)


@pytest.mark.slow
@pytest.mark.parametrize("far", slow_except([1e3, 1e9], {1e9}))
@pytest.mark.parametrize("sampler", [SMALL, "adaptive-metropolis"])
def test_a_far_start_or_a_far_mode_is_no_wrong_sign(sampler, far):
    """Neither a start far from the mode nor a mode far from the start, whatever the result of the
    run.
    """
    initial = far * (1 + 0.1 * np.random.default_rng(0).standard_normal((4, 2)))
    run(
        lambda x: -0.5 * float(x @ x),
        sampler,
        dim=2,
        initial=initial,
        max_evaluations=200,
        draws=None,
    )
    run(
        lambda x: -0.5 * float((x - far) @ (x - far)),
        sampler,
        dim=2,
        max_evaluations=200,
        draws=None,
    )


# The check alone


def climbed(function, *points):
    model = kmc.Model(lambda x: function(x[0]), dim=1)
    ascent = Ascent(model)
    for x in points:
        ascent.note(np.array([[x]]), np.array([function(x)]))
    return ascent


def probe(ascent, function, most=100):
    ascent.check(lambda x: [function(x[0, 0])], most)


PROPER = {
    "a mode that is not reached": lambda x: -0.5 * (x - 1e12) ** 2,
    "a long ridge": lambda x: -abs(x - 1e18),
    "heavy tails": lambda x: 1e6 * -np.log1p((x - 1e6) ** 2),
    "a wall": lambda x: x if x < 1e9 else -np.inf,
    "nowhere": lambda x: x if x < 1e9 else np.nan,
}


@pytest.mark.parametrize("function", PROPER.values(), ids=PROPER)
def test_a_density_that_falls_in_the_end_is_proper(function):
    ascent = climbed(function, 0.0, 1e5)
    assert ascent.suspicious
    probe(ascent, function)
    assert 0 < ascent.n_probes <= 9


@pytest.mark.parametrize("function", [lambda x: 0.5 * x * x, abs, lambda x: np.exp(min(x, 710.0))])
def test_a_density_that_never_falls_is_not(function):
    ascent = climbed(function, 1.0, 20.0, 3e4)
    with pytest.raises(kmc.EvaluationError, match=WRONG):
        probe(ascent, function)
