import math
import warnings

import numpy as np
import pytest

from kmc.model import lotka_volterra as lv
from kmc.model.evaluate import evaluate_point
from tests.oracles import lotka_volterra as oracle

PUBLISHED = np.log([lv.PUBLISHED[name][0] for name in lv.PARAMETERS])


def posterior_like(rng, n):
    """Points over the posterior's range and beyond: the published means, scattered by three times
    the sds.
    """
    relative = np.array([lv.PUBLISHED[name][1] / lv.PUBLISHED[name][0] for name in lv.PARAMETERS])
    return PUBLISHED + 3 * relative * rng.standard_normal((n, 8))


def test_log_density_agrees_with_the_oracle():
    rng = np.random.default_rng(1)
    points = np.concatenate([[PUBLISHED], posterior_like(rng, 10), lv.initial(rng, 5)])
    expected = np.array([oracle.log_density(x) for x in points])
    error = np.abs([lv.log_density(x) for x in points] - expected) / np.maximum(
        1, np.abs(expected) / 100
    )
    assert error.max() < 1e-3
    assert np.median(error) < 1e-4


def test_the_jacobian_is_that_of_the_logarithm():
    """The densities of x and exp(x) have the same integral: compare along the first sigma."""
    natural = oracle.log_density_natural(*np.exp(PUBLISHED))
    assert lv.log_density(PUBLISHED) - natural == pytest.approx(PUBLISHED.sum(), abs=1e-4)


def test_the_density_is_smooth_at_the_scale_of_a_proposal():
    """Noise of the solver shows as a third difference that does not shrink with the step."""
    rng = np.random.default_rng(2)
    for x, direction in zip(posterior_like(rng, 10) - PUBLISHED, rng.standard_normal((10, 8))):
        line = [lv.log_density(PUBLISHED + x / 3 + 1e-5 * t * direction) for t in range(8)]
        assert np.abs(np.diff(line, 3)).max() < 1e-4


def test_the_solution_keeps_its_invariant():
    """V = δu − γ log u + βv − α log v is constant along a solution."""
    for x in posterior_like(np.random.default_rng(3), 5):
        alpha, beta, gamma, delta = np.exp(x[:4])
        u, v = lv.predict(x, np.linspace(1900, 1960, 400)).T
        invariant = delta * u - gamma * np.log(u) + beta * v - alpha * np.log(v)
        assert np.ptp(invariant) < 1e-4


def test_predict_starts_at_z_init_and_agrees_with_the_oracle():
    z = lv.predict(PUBLISHED)
    np.testing.assert_allclose(z[0], np.exp(PUBLISHED[4:6]))
    np.testing.assert_allclose(z.T, oracle.solution(*np.exp(PUBLISHED[:6])), rtol=1e-5)
    assert lv.predict(PUBLISHED, [1900]).shape == (1, 2)


@pytest.mark.parametrize("scale", [1.0, 3.0, 10.0, 30.0, 1000.0])
def test_extreme_parameters_are_quick_silent_and_never_nan(scale, monkeypatch):
    rng, steps, solve = np.random.default_rng(4), [], lv.solve_ivp

    def counted(slope, *args, **kwargs):
        def step(*at):
            steps[-1] += 1
            return slope(*at)

        steps.append(0)
        return solve(step, *args, **kwargs)

    monkeypatch.setattr(lv, "solve_ivp", counted)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in PUBLISHED + scale * rng.standard_normal((40, 8)):
            value = lv.log_density(x)
            assert isinstance(value, float)
            assert value < math.inf  # false for NaN as well
            assert lv.predict(np.clip(x, -50, 50)).shape == (21, 2)
    assert len(steps) >= 40 and max(steps) <= lv._MAX_CALLS + 1


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 51.0])
@pytest.mark.parametrize("coordinate", range(8))
def test_what_cannot_be_computed_has_density_zero(coordinate, value):
    x = PUBLISHED.copy()
    x[coordinate] = value
    assert lv.log_density(x) == -math.inf


def test_the_model_with_its_parts_apart_is_the_log_density():
    model = lv.model()
    assert tuple(model.dims) == lv.PARAMETERS
    for x in posterior_like(np.random.default_rng(6), 5):
        assert evaluate_point(model, x).log_density == pytest.approx(lv.log_density(x), abs=1e-8)
