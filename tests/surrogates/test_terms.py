import numpy as np
import pytest

from kmc.surrogates import FitOptions, expansion_search, fit_surrogate, jit_state, term_search
from kmc.surrogates.expansion import Data
from kmc.surrogates.scale_group import ScaleGroup
from kmc.surrogates.term_pursuit import quadratic_factors
from kmc.surrogates.term_search import find_factors
from kmc.surrogates.terms import TermExpansion, Terms, extended, fit_terms, products
from kmc.surrogates.terms_jit_state import LARGEST, MOST_FACTORS, TermsState, sum_of_terms
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


def test_exponentials_stay_finite(rng):
    terms = some_terms(rng)
    w, slope, gradient = np.empty(6), np.empty(6), np.empty(3)
    value = sum_of_terms(terms, np.array([-1e4, 0.5, 1e4]), gradient, w, slope)
    assert np.isfinite(value) and np.all(np.isfinite(gradient))
    assert w[4] == pytest.approx(np.exp(LARGEST)) == w[5]


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


def test_products(rng):
    terms = some_terms(rng)
    v = rng.standard_normal((4, 3))
    found = products(extended(v, terms.drivers, terms.rates), terms.factors)
    expected = [[oracle.sum_of_terms(terms._replace(coefficients=row), p) for row in np.eye(5)] for p in v]
    np.testing.assert_allclose(found, expected, rtol=1e-13)


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


def test_the_group_of_a_scale_is_known(rng):
    """The driver is the log-sd t (slope 1), around m; with the log-precision -2 t (slope -1/2), too."""
    x = history(rng, 400)
    for factor in (1.0, -2.0):
        scaled = x * np.where(np.arange(x.shape[1]) == 1, factor, 1.0)
        found, expansion = found_terms(scaled, group(x), rng)
        (one,) = found.groups
        assert (one.driver, one.center, one.members.tolist()) == (1, 0, list(range(2, MEMBERS + 2)))
        assert one.slope == pytest.approx(1.0 / factor)
        np.testing.assert_array_equal(expansion.terms.ties, found.ties)


def test_a_scale_has_one_power(rng):
    """What the sum of a group leaves is not taken for the same members with another power of their scale."""
    x = history(rng, 400)
    members = np.sum((x[:, 2 : MEMBERS + 2] - x[:, :1]) ** 2, axis=1)
    y = group(x) - 0.05 * np.exp(-x[:, 1]) * members + 0.05 * rng.standard_normal(len(x))
    found, _ = found_terms(x, y, rng)
    assert len({one.driver for one in found.groups}) == len({(one.driver, one.slope) for one in found.groups}) > 0


def test_beside_a_group_exponentials_vanish_in_its_neck(rng):
    """Those of another coordinate, or that grow as the scale shrinks, would be far off where no value is."""
    x = history(rng, 400)
    y = group(x) + 0.2 * np.exp(-x[:, 1]) + 0.2 * np.exp(x[:, 0] / x[:, 0].std())
    found, _ = found_terms(x, y, rng)
    own = {one.driver: -np.sign(one.slope) for one in found.groups}
    assert own == {1: -1.0}
    assert set(found.drivers.tolist()) == {1}
    assert sum(rate < 0 for rate in found.rates) == 1  # the group's


def test_a_group_is_right_far_from_the_values(rng):
    """At scales that are smaller than all among the values, which separate terms miss by 20 nats."""
    x = history(rng, 400)
    _, expansion = found_terms(x, group(x), rng)
    deep = x[np.argsort(x[:, 1])[:10]]
    deep = np.array([ScaleGroup(1, 1.0, 0, np.arange(2, MEMBERS + 2)).scaled(row, -1.5)[0] for row in deep])
    assert deep[:, 1].max() < x[:, 1].min()
    assert np.sqrt(np.mean((expansion.values(deep) - group(deep)) ** 2)) < 1.0


def test_polynomials_are_found(rng):
    """A curved ridge among bystanders: x_2 + b x_1² squared, without exponentials."""
    x = 30.0 * rng.standard_normal((400, 8))  # coordinates whose exponentials do not matter
    y = -0.5 * (np.sum(x[:, 2:] ** 2, axis=1) / 900 + x[:, 0] ** 2 / 900 + (x[:, 1] / 30 + (x[:, 0] / 30) ** 2) ** 2)
    found, expansion = found_terms(x, y, rng)
    assert not len(found.drivers) and found.error < 1e-3 and expansion.loo_sd < 0.01
    extra = {tuple(f) for f in found.factors} - set(quadratic_factors(8))
    assert {(2, 1, 1, 0, 0), (1, 1, 1, 1, 0)} <= extra


def test_blocks_that_the_values_do_not_determine_are_left_out(rng, monkeypatch):
    """Ten coordinates: 81 values are not held out, and a pair of powers times quadratics has 110 columns."""
    monkeypatch.setattr(term_search, "POWERS", ((-1.0, -2.0),))
    monkeypatch.setattr(term_search, "WORTH_BLOCK", 1e9)
    v = rng.standard_normal((101, 10))
    y = -0.5 * np.exp(-2 * v[:, 0]) * v[:, 1] ** 2
    assert np.isfinite(find_factors(v, y, np.full(101, 1 / 101), spreads=np.ones(10), rng=rng).error)


WIDE = 54  # the fewest dimensions in which a quadratic has too many terms to begin with


def wide_history(rng, n):
    """The shallower half of points near draws; the observations are far from the group's center."""
    x = history(rng, 2 * n, WIDE, depth=np.inf)
    return x[rng.permutation(np.argsort(-group(x))[:n])]


def test_a_group_is_found_in_many_dimensions(rng):
    """From fewer values than half of the 1,540 terms of a quadratic; a driver and a center are among 54 coordinates."""
    x = wide_history(rng, 700)
    y = group(x)
    found, expansion = found_terms(x, y, rng)
    assert found.error < 0.05
    assert found.drivers.tolist() == [1]
    assert found.rates / x[:, 1].std() == pytest.approx([-2.0])
    new = wide_history(rng, 100)
    assert np.median(np.abs(expansion.values(new) - group(new))) < 0.05 < 0.01 * y.std()


@pytest.mark.slow
def test_members_of_a_group_share_a_coefficient(rng):
    """Only half of the coordinates are in the group; the others are N(m / 2, 1) each, which pairs explain."""
    x = wide_history(rng, 900)
    members = 2 + (WIDE - 2) // 2
    x[:, members:] = 0.5 * x[:, :1] + rng.standard_normal((len(x), WIDE - members))
    y = group(x[:, :members]) - 0.5 * np.sum((x[:, members:] - 0.5 * x[:, :1]) ** 2, axis=1)
    found, expansion = found_terms(x, y, rng)
    assert found.drivers.tolist() == [1] and found.ties is not None
    assert found.ties.shape[0] - found.ties.shape[1] > WIDE
    assert np.median(np.abs(expansion.values(x) - y)) < 0.02
    deep = x[:5] - 2.0 * (np.arange(WIDE) == 1)  # a scale far smaller than at any of the values
    deep_y = group(deep[:, :members]) - 0.5 * np.sum((deep[:, members:] - 0.5 * deep[:, :1]) ** 2, axis=1)
    np.testing.assert_allclose(expansion.values(deep), deep_y, rtol=0.01)


def test_leave_one_out_is_trimmed_in_many_dimensions(rng):
    """One of the values has a residual that no term explains: the error is that of the others."""
    x = rng.standard_normal((700, WIDE))
    y = -0.5 * x[:, 0] ** 2
    y[3] += 100.0
    terms = Terms(np.array([[1, 1, 0, 0, 0]]), np.array([], dtype=int), np.array([]), np.eye(WIDE), np.zeros(WIDE))
    data = Data(x, y, np.full(len(x), 1 / len(x)), x[:10])
    found = fit_terms(data, terms, n_searched=len(x))
    assert found.loo_sd < 1.0 < np.sqrt(np.mean(found.residuals**2))


def test_sparse_pairs_are_found_in_many_dimensions(rng):
    """A chain of neighbors: 53 of 1,431 pairs."""
    precision = 2 * np.eye(WIDE) - 0.9 * np.eye(WIDE, k=1) - 0.9 * np.eye(WIDE, k=-1)
    x = rng.standard_normal((700, WIDE)) @ np.linalg.cholesky(np.linalg.inv(precision)).T
    found, _ = found_terms(x, -0.5 * np.einsum("ni,ij,nj->n", x, precision, x), rng)
    pairs = {tuple(f[:2]) for f in found.factors.tolist()}
    assert found.error < 1e-6 and {(i + 1, i) for i in range(1, WIDE)} <= pairs


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


def test_a_later_fit_keeps_the_terms(rng):
    x = history(rng, 900)
    first = fitted(x[:-90], np.random.default_rng(1))
    states = x[np.argsort(-group(x))[:100]]
    second = fit_surrogate(x, group(x), states, rng=np.random.default_rng(1), previous=first)
    assert isinstance(second.expansion, TermExpansion) and second.expansion.n_searched == len(x) - 90
    np.testing.assert_array_equal(second.expansion.terms.factors, first.expansion.terms.factors)


def test_a_search_in_vain_changes_nothing(rng, monkeypatch):
    """Rough values, which no few products explain: the same surrogate, and the same random numbers afterwards."""
    x = rng.standard_normal((300, 3))
    y = -0.5 * np.sum(x**2, axis=1) + 2.0 * np.sin(9 * x[:, 0]) * np.sin(8 * x[:, 1]) * np.sin(7 * x[:, 2])
    searches = []
    found = []
    for search in (expansion_search._found_terms, lambda *_: None):
        monkeypatch.setattr(
            expansion_search, "_found_terms", lambda *a, search=search: searches.append(search(*a)) or searches[-1]
        )
        own = np.random.default_rng(1)
        found.append((fit_surrogate(x, y, x[:100], rng=own).log_density(x), own.random()))
    assert searches[0] is not None  # it was made
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]


def test_too_few_values_for_terms(rng):
    x = history(rng, 40)
    with pytest.raises(np.linalg.LinAlgError, match="too few values"):
        fit_surrogate(x, group(x), x, rng=rng, only_terms=True)


def test_no_terms_for_noisy_values(rng):
    x = history(rng, 400)
    noisy = group(x) + rng.standard_normal(len(x))
    surrogate = fit_surrogate(x, noisy, x[:100], rng=rng, noisy=True)
    assert not isinstance(surrogate.expansion, TermExpansion)


def test_factors_are_padded():
    assert all(len(f) == MOST_FACTORS for f in quadratic_factors(3)) and len(quadratic_factors(3)) == 9
