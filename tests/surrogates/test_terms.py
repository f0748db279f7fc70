import numpy as np
import pytest

from kmc.surrogates import FitOptions, fit_surrogate, jit_state
from kmc.surrogates.expansion import Data
from kmc.surrogates.term_pursuit import quadratic_factors
from kmc.surrogates.term_search import find_factors
from kmc.surrogates.terms import TermExpansion, Terms, fit_terms
from kmc.surrogates.terms_jit_state import TermsState, sum_of_terms
from kmc.surrogates.whitening import Whitening
from tests.oracles import differences
from tests.oracles import point as oracle

MEMBERS = 5  # of a group x_i ~ N(m, exp(t)²); coordinates (m, t, x)


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def group(x):
    """m ~ N(0, 1), t ~ N(0, 1), x_i ~ N(m, exp(t)²) with an observation N(x_i, 1) of i."""
    m, t, members = x[..., 0], x[..., 1], x[..., 2:]
    inside = np.sum((members - m[..., None]) ** 2, axis=-1) * np.exp(-2 * t)
    observed = np.sum((members - np.arange(members.shape[-1]) % MEMBERS) ** 2, axis=-1)
    return -0.5 * (m**2 + t**2 + inside + observed) - members.shape[-1] * t


def history(rng, n, dim=MEMBERS + 2, *, depth=40.0):
    """Points near draws of a group, as proposals are."""
    m, t = rng.standard_normal((2, n))
    t *= 0.7
    x = m[:, None] + np.exp(t)[:, None] * rng.standard_normal((n, dim - 2))
    x = np.column_stack([m, t, x]) + 0.2 * rng.standard_normal((n, dim))
    return x[group(x) > group(x).max() - depth]


def some_terms(rng, dim=3):
    factors = np.array([[1, 0, 0, 0, 0], [5, 2, 2, 0, 0], [4, 0, 0, 0, 0], [3, 3, 2, 1, 1], [5, 4, 1, 0, 0]])
    return TermsState(factors, rng.standard_normal(5), np.array([0, 2]), np.array([-0.7, 1.3]))


def test_sum_of_terms(rng):
    terms = some_terms(rng)
    w, slope, gradient = np.empty(6), np.empty(6), np.empty(3)
    for v in rng.standard_normal((5, 3)):
        assert sum_of_terms(terms, v, gradient, w, slope) == pytest.approx(oracle.sum_of_terms(terms, v), rel=1e-13)
        expected = differences.gradient(lambda v: oracle.sum_of_terms(terms, v), v)
        np.testing.assert_allclose(gradient, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("half_q", [0.5, 40.0], ids=["in the data", "beyond the cap"])
def test_surrogate_at_a_point(rng, half_q):
    a = rng.standard_normal((3, 3))
    surrogate = jit_state.SurrogateJitState(
        constant=-1.3,
        location=rng.standard_normal(3),
        precision=a @ a.T + np.eye(3),
        dof=0.0,
        cap=4.0,
        tail=3.5,
        metric=np.eye(3) + 0.3 * rng.standard_normal((3, 3)),
        shift=0.2 * rng.standard_normal(3),
        centers=np.zeros((3, 1)),
        coefficients=np.zeros(1),
        rate=1.0,
        radial=False,
        terms=some_terms(rng)._replace(coefficients=0.05 * rng.standard_normal(5)),
    )
    z = surrogate.location + np.sqrt(half_q) * np.array([0.3, -0.2, 0.1])
    gradient = np.empty(3)
    value = jit_state.value_and_gradient(surrogate, z, gradient, jit_state.workspace(surrogate))
    assert value == pytest.approx(oracle.value(surrogate, z), rel=1e-12)
    expected = differences.gradient(lambda z: oracle.value(surrogate, z), z)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-7)


def found_terms(x, y, rng):
    """Terms in coordinates z = x, and data."""
    weights = np.full(len(x), 1 / len(x))
    center, spreads = x.mean(axis=0), x.std(axis=0)
    found = find_factors((x - center) / spreads, y, weights, spreads=spreads, center=center, rng=rng)
    terms = Terms(found.factors, found.drivers, found.rates, np.diag(1 / spreads), center / spreads, found.ties)
    data = Data(x, y, weights, x[:10])
    return found, fit_terms(data, terms, n_searched=len(x))


def test_a_group_is_found(rng):
    """A quadratic has 36 terms and misses the values by more than a nat; a polynomial of degree four has 330 terms."""
    x = history(rng, 400)
    found, expansion = found_terms(x, group(x), rng)
    assert found.error < 0.05 and expansion.loo_sd < 0.05
    powers = np.round(found.rates / x.std(axis=0)[found.drivers], 6)
    assert (1, -2.0) in set(zip(found.drivers.tolist(), powers.tolist()))
    new = history(rng, 200)
    quadratic = fit_terms(
        Data(x, group(x), np.full(len(x), 1 / len(x)), x[:10]),
        expansion.terms._replace(factors=np.array(quadratic_factors(x.shape[1])), ties=None),
        n_searched=len(x),
    )
    errors = [np.median(np.abs(e.values(new) - group(new))) for e in (expansion, quadratic)]
    assert errors[0] < 0.02 and errors[1] > 1.0


def test_polynomials_are_found(rng):
    """A curved ridge among bystanders: x_2 + b x_1² squared, without exponentials."""
    x = 30.0 * rng.standard_normal((400, 8))  # coordinates whose exponentials do not matter
    y = -0.5 * (np.sum(x[:, 2:] ** 2, axis=1) / 900 + x[:, 0] ** 2 / 900 + (x[:, 1] / 30 + (x[:, 0] / 30) ** 2) ** 2)
    found, expansion = found_terms(x, y, rng)
    assert not len(found.drivers) and found.error < 1e-3 and expansion.loo_sd < 0.01
    extra = {tuple(f) for f in found.factors} - set(quadratic_factors(8))
    assert {(2, 1, 1, 0, 0), (1, 1, 1, 1, 0)} <= extra


WIDE = 54  # the fewest dimensions in which a quadratic has too many terms to begin with


def wide_history(rng, n):
    """The shallower half of points near draws; the observations are far from the group's center."""
    x = history(rng, 2 * n, WIDE, depth=np.inf)
    return x[rng.permutation(np.argsort(-group(x))[:n])]


def test_a_surrogate_of_a_group_in_many_dimensions(rng):
    """Refits keep the terms, in coordinates of the user, although the surrogate was given others in between."""
    x = wide_history(rng, 800)
    y = group(x)
    states = x[np.argsort(-y)[:200]]
    first = fit_surrogate(x[:700], y[:700], states, rng=rng, only_terms=True)
    turned = first.rewhitened(first.coordinates(states))
    second = fit_surrogate(x, y, states, rng=rng, previous=turned)
    new = wide_history(np.random.default_rng(2), 100)
    new = new[group(new) > y.max() - second.edge]
    for surrogate in (first, second):
        assert isinstance(surrogate.expansion, TermExpansion)
        assert np.median(np.abs(surrogate.log_density(new) - group(new))) < 0.2


def test_nothing_is_found_in_a_quadratic(rng):
    x = rng.standard_normal((200, 4))
    found, _ = found_terms(x, -0.5 * np.sum(x**2, axis=1), rng)
    assert len(found.factors) == len(quadratic_factors(4)) and not len(found.drivers)


def test_gradients_and_other_coordinates(rng):
    x = history(rng, 300)
    _, expansion = found_terms(x, group(x), rng)
    slopes = [differences.gradient(lambda z: expansion.values(z[None])[0], row) for row in x[:5]]
    np.testing.assert_allclose(expansion.gradients(x[:5]), slopes, rtol=1e-5, atol=1e-5)
    dim = x.shape[1]
    step = Whitening.of(rng.standard_normal(dim), np.eye(dim) + 0.2 * rng.standard_normal((dim, dim)))
    np.testing.assert_allclose(expansion.rewhitened(step).values(step(x)), expansion.values(x), rtol=1e-8, atol=1e-8)


def fitted(x, rng, **options):
    states = x[np.argsort(-group(x))[:100]]
    return fit_surrogate(x, group(x), states, rng=rng, options=FitOptions(**options))


def test_a_surrogate_of_a_group(rng):
    """Kernel sections alone miss the values by much more."""
    x = history(rng, 800)
    surrogate = fitted(x, np.random.default_rng(1))
    kernels = fitted(x, np.random.default_rng(1), bandwidths=(0.5, 0.8, 1.2, 2.0, 3.5, 7.0, 14.0))
    assert isinstance(surrogate.expansion, TermExpansion) and not isinstance(kernels.expansion, TermExpansion)
    new = history(np.random.default_rng(2), 300)
    new = new[group(new) > group(x).max() - surrogate.edge]
    errors = [np.median(np.abs(s.log_density(new) - group(new))) for s in (surrogate, kernels)]
    assert errors[0] < 0.02 and errors[1] > 10 * errors[0]
    draws = x[:50]
    again = surrogate.rewhitened(surrogate.coordinates(draws))
    np.testing.assert_allclose(again.log_density(new), surrogate.log_density(new), rtol=1e-6, atol=1e-6)


def test_too_few_values_for_terms(rng):
    x = history(rng, 40)
    with pytest.raises(np.linalg.LinAlgError, match="too few values"):
        fit_surrogate(x, group(x), x, rng=rng, only_terms=True)


def test_no_terms_for_noisy_values(rng):
    x = history(rng, 400)
    noisy = group(x) + rng.standard_normal(len(x))
    surrogate = fit_surrogate(x, noisy, x[:100], rng=rng, noisy=True)
    assert not isinstance(surrogate.expansion, TermExpansion)
