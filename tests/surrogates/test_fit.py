import numba
import numpy as np
import pytest

from kmc.surrogates import FitOptions, expansion_search, fit_surrogate, jit_state
from kmc.surrogates.transport import Funnel
from kmc.surrogates.trend import depth
from kmc.targets.toys import Banana, Bimodal, Gaussian, Ring
from tests.oracles import differences
from tests.oracles import point as oracle


@pytest.fixture
def rng():
    return np.random.default_rng(18)


def evaluate(target, x):
    return np.array([target(row) for row in x])


def history(target, n, rng):
    """The history of a run: draws, some of them displaced by up to half a standard deviation, and their values."""
    x = target.sample(rng, n)
    x = x + x.std(0) * rng.standard_normal(x.shape) * rng.choice([0.0, 0.1, 0.5], (n, 1))
    return x, evaluate(target, x)


def fitted(x, y, states=None, seed=1, **options):
    states = x[::4] if states is None else states
    return fit_surrogate(x, y, states, rng=np.random.default_rng(seed), options=FitOptions(**options))


def test_the_same_surrogate_for_any_number_of_threads(rng, monkeypatch):
    """To the bit: of a target for which all kinds of candidates are tried."""
    x, y = history(Ring(), 300, rng)
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", threads)
        found.append(fitted(x, y))
    at = rng.standard_normal((50, 2))
    for other in found[1:]:
        np.testing.assert_array_equal(other.log_density(at), found[0].log_density(at))
        assert other.loo_sd == found[0].loo_sd


@pytest.mark.parametrize("dim", [1, 3, 10])
def test_quadratic_is_recovered(rng, dim):
    """However it is scaled, correlated and shifted: draws times 1.3, so all depths are below the trend's cap."""
    a = rng.standard_normal((dim, dim))
    scale = np.logspace(-3, 3, dim)

    def target(x):
        r = (x - 5.0) / scale
        return 100.0 - 0.5 * np.sum((r @ a) ** 2) - 0.05 * np.sum(r**2)

    root = np.linalg.cholesky(np.linalg.inv(a @ a.T + 0.1 * np.eye(dim)))
    x = 5.0 + 1.3 * scale * (rng.standard_normal((30 * dim + 100, dim)) @ root.T)
    fresh = 5.0 + scale * (rng.standard_normal((200, dim)) @ root.T)
    surrogate = fitted(x, evaluate(target, x))
    np.testing.assert_allclose(surrogate.log_density(fresh), evaluate(target, fresh), atol=1e-6)
    assert surrogate.loo_sd < 1e-6


@pytest.mark.parametrize("dof", [1.0, 2.0])
def test_heavy_tails_are_kept(rng, dof):
    """A surrogate that falls faster than the density would hold a chain there for a very long time."""

    def draw(n):
        return rng.standard_normal((n, 2)) * np.sqrt(dof / rng.chisquare(dof, (n, 1)))

    def target(x):
        return -0.5 * (dof + 2) * np.log1p(x @ x / dof)

    x, fresh = draw(1000), draw(5000)
    surrogate = fitted(x, evaluate(target, x))
    np.testing.assert_allclose(surrogate.log_density(fresh), evaluate(target, fresh), atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_banana_is_learned(seed):
    """All but the farthest draws; one in a thousand lies where no history was."""
    rng, target = np.random.default_rng(seed), Banana(2, b=0.03)
    surrogate = fitted(*history(target, 1500, rng))
    fresh = target.sample(rng, 1000)
    error = np.sort(np.abs(surrogate.log_density(fresh) - evaluate(target, fresh)))
    assert np.sqrt(np.mean(error[:990] ** 2)) < 0.1
    assert surrogate.loo_sd < 0.3 < surrogate.trend_sd


def test_many_bends_are_learned(rng, monkeypatch):
    """Three bananas side by side are a quartic polynomial in six variables: 210 terms, more than were asked for."""
    part = Banana(2, b=0.1)

    def target(x):
        return sum(part(pair) for pair in x.reshape(3, 2))

    x = np.hstack([part.sample(rng, 900) for _ in range(3)])
    x += 0.1 * x.std(0) * rng.standard_normal(x.shape)
    few = fitted(x[:240], evaluate(target, x[:240]), n_basis=40)
    surrogate = fitted(x, evaluate(target, x), n_basis=40)
    assert len(few.expansion.centers) < 210 < len(surrogate.expansion.centers)
    assert few.loo_sd > 1.0 and surrogate.loo_sd < 0.01
    fresh = np.hstack([part.sample(rng, 300) for _ in range(3)])
    assert np.median(np.abs(surrogate.log_density(fresh) - evaluate(target, fresh))) < 0.01

    def slow(*arguments, **options):
        raise AssertionError("a refit searches for a metric again")

    monkeypatch.setattr(expansion_search, "_with_learned_metric", slow)
    options = FitOptions(n_basis=40)
    again = fit_surrogate(x, evaluate(target, x), x[::4], rng=rng, options=options, previous=surrogate)
    assert again.loo_sd < 0.01


@pytest.mark.parametrize("target", [Banana(4, b=0.03), Bimodal(2, weight=0.3), Ring()], ids=repr)
def test_leave_one_out_sd_tells_the_error(rng, target):
    surrogate = fitted(*history(target, 1000, rng))
    fresh = target.sample(rng, 500)
    error = np.median(np.abs(surrogate.log_density(fresh) - evaluate(target, fresh)))
    assert error < min(2 * surrogate.loo_sd, 0.2)


@pytest.mark.parametrize("target", [Banana(3, b=0.03), Gaussian(2, correlation=0.5)], ids=repr)
def test_surrogate_is_the_trend_plus_the_expansion(rng, target):
    """The jitted point agrees with the parts that were fitted, and its gradient is the slope of its value."""
    surrogate = fitted(*history(target, 400, rng))
    z = surrogate.whitening(target.sample(rng, 20))
    r = z - surrogate.trend.location
    trend = surrogate.trend.constant - depth(
        np.einsum("ni,ij,nj->n", r, surrogate.trend.precision, r), surrogate.trend.dof, target.dim
    )
    values = jit_state.values(surrogate.jit_state, z)
    scale = 1.0 + np.abs(surrogate.expansion.coefficients).sum()  # what cancels in the sum
    np.testing.assert_allclose(values, trend + surrogate.expansion.values(z), atol=1e-13 * scale)
    np.testing.assert_allclose(values, [oracle.value(surrogate.jit_state, row) for row in z], atol=1e-13 * scale)
    np.testing.assert_allclose(values, surrogate.log_density(surrogate.whitening.back(z)), atol=1e-11 * scale)
    slopes = [differences.gradient(lambda z: jit_state.values(surrogate.jit_state, z[None])[0], row) for row in z]
    np.testing.assert_allclose(jit_state.gradients(surrogate.jit_state, z), slopes, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("bandwidths", [(1.2, 3.5), (np.inf,)], ids=["gaussian", "polynomial"])
def test_other_coordinates_do_not_change_the_surrogate(rng, bandwidths):
    target = Banana(3, b=0.1)
    x, y = history(target, 600, rng)
    surrogate = fitted(x, y, bandwidths=bandwidths)
    draws = 3.0 + rng.standard_normal((100, 3)) @ np.diag([0.2, 1.0, 5.0])
    other = surrogate.rewhitened(draws)
    inside = np.linalg.norm(surrogate.whitening(x), axis=1) < surrogate.jit_state.reach
    np.testing.assert_allclose(other.log_density(x[inside]), surrogate.log_density(x[inside]), rtol=1e-6, atol=1e-6)


def test_same_seed_same_surrogate(rng):
    x, y = history(Banana(2, b=0.03), 400, rng)
    first, same, other = (fitted(x, y, seed=seed, n_basis=100).log_density(x) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert (first != other).any()


@pytest.mark.parametrize(
    ("scale", "offset"),
    [(1.0, 1e6), (1e6, 0.0), (1e-6, 0.0), ([1e6, 1.0, 1e-6], 0.0), ([1e6, 1.0, 1e6], [0.0, 1e6, 1e12])],
)
def test_units_do_not_matter(scale, offset):
    """Up to the digits that x itself loses (1e-10 of a unit), blown up by coefficients of up to 1e5."""
    rng, target = np.random.default_rng(19), Banana(3, b=0.03)
    x, y = history(target, 600, rng)
    fresh = target.sample(rng, 300)
    expected = fitted(x, y).log_density(fresh)
    moved = fitted(x * scale + offset, y).log_density(fresh * scale + offset)
    assert np.median(np.abs(moved - expected)) < 1e-3
    assert np.sqrt(np.mean((moved - expected) ** 2)) < 0.02


def test_a_constant_added_to_the_log_density_is_kept(rng):
    x, y = history(Banana(2, b=0.03), 400, rng)
    np.testing.assert_allclose(fitted(x, y + 1e6).log_density(x), fitted(x, y).log_density(x) + 1e6, atol=1e-2)


# Bad input


def test_points_outside_the_support(rng):
    """Half of the points have log-density -inf: their information on the edge must not harm the inside."""
    x = 1.5 * rng.standard_normal((600, 2))
    y = np.where(x[:, 0] > 0, -0.5 * np.sum(x**2, axis=1), -np.inf)
    inside = np.isfinite(y)
    surrogate = fitted(x, y, x[inside][::4])
    values = surrogate.log_density(x)
    assert np.isfinite(values).all() and np.isfinite(surrogate.loo_sd)
    assert np.median(np.abs(values - y)[inside]) < 1.5


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_states_outside_the_support(rng, share):
    """A user may start there."""
    x, y = history(Gaussian(2), 300, rng)
    y[rng.random(300) < share] = -np.inf
    surrogate = fit_surrogate(x, y, x, rng=rng, levels=y)
    assert np.isfinite(surrogate.log_density(x)).all() and np.isfinite(surrogate.edge)


@pytest.mark.parametrize("width", [0.3, 0.6])
def test_a_hole_in_the_bulk(rng, width):
    """Points too deep to count as values must still not look like the bulk, or a chain would go there."""

    def target(x):
        return -0.5 * x @ x - 300.0 * np.exp(-0.5 * np.sum((x - [1.0, 0.0]) ** 2) / width**2)

    x = 1.3 * rng.standard_normal((800, 2))
    y = evaluate(target, x)
    shallow, deep = y > -8, y < -50
    surrogate = fitted(x, y, x[shallow][::4])
    values = surrogate.log_density(x)
    assert deep.sum() > 40
    assert np.mean(values[deep] > y.max() - surrogate.edge) < 0.1
    assert np.median(np.abs(values - y)[shallow]) < 0.4


@pytest.mark.parametrize("seed", range(3))
def test_known_deep_points_stay_out_of_the_bulk(seed):
    """Far outside, where the density is known to be zero, a kernel must not extrapolate to the level of the bulk."""
    rng, target = np.random.default_rng(seed), Ring()
    x, _ = history(target, 400, rng)
    x = np.vstack([x, 8.0 * rng.standard_normal((300, 2))])
    y = evaluate(target, x)
    surrogate = fitted(x, y, x[:400:2])
    deep = y < y.max() - 60
    assert deep.sum() > 150
    assert np.mean(surrogate.log_density(x[deep]) > y.max() - surrogate.edge) < 0.05
    assert np.median(np.abs(surrogate.log_density(x[:400]) - y[:400])) < 0.2


def test_duplicates_count_once(rng):
    x, y = history(Banana(2, b=0.03), 200, rng)
    once = fitted(x, y)
    thrice = fitted(np.tile(x, (3, 1)), np.tile(y, 3), x[::4])
    assert thrice.n_values == once.n_values <= 200
    np.testing.assert_allclose(thrice.log_density(x), once.log_density(x), rtol=0, atol=1e-8)


@pytest.mark.parametrize("width", [1e-9, 0.0])
@pytest.mark.filterwarnings("error")
def test_a_constant_column(rng, width):
    """A parameter that barely moves is a matter of units; one that never moved causes neither error nor warning."""
    x, y = history(Banana(3, b=0.03), 600, rng)
    narrow = np.column_stack([x[:, :2], 1.0 + width * x[:, 2]])
    y = y if width else y + 0.5 * x[:, 2] ** 2
    assert np.median(np.abs(fitted(narrow, y).log_density(narrow) - y)) < 0.1


@pytest.mark.parametrize("n", [2, 3, 5, 10, 20])
def test_few_points(n):
    rng, target = np.random.default_rng(20), Banana(3, b=0.03)
    x, y = history(target, n, rng)
    surrogate = fitted(x, y, x)
    far = x + 100.0 * rng.standard_normal(x.shape)
    assert np.isfinite(surrogate.log_density(np.vstack([x, far]))).all()
    assert surrogate.log_density(far).mean() < surrogate.log_density(x).mean()


# Refits


def test_arguments_are_not_written_to(rng):
    x, y = history(Banana(2, b=0.03), 200, rng)
    copies = x.copy(), y.copy()
    fitted(x, y)
    np.testing.assert_array_equal(x, copies[0])
    np.testing.assert_array_equal(y, copies[1])


def test_gradients_at_some_points_replace_many_values(rng):
    """A banana in ten dimensions from 120 values, a third of them with a gradient, in a funnel's coordinates or not."""
    target = Banana(10)
    x, y = history(target, 120, rng)
    gradients = np.full(x.shape, np.nan)
    gradients[::3] = [differences.gradient(target, row, 1e-4) for row in x[::3]]
    fresh = target.sample(rng, 200)
    truth = evaluate(target, fresh)

    def error(surrogate):
        return np.median(np.abs(surrogate.log_density(fresh) - truth))

    values_only, with_gradients = (
        fit_surrogate(x, y, x[::2], rng=np.random.default_rng(1), gradients=given) for given in (None, gradients)
    )
    assert error(with_gradients) < 0.5 < 2.0 < error(values_only)


def test_no_gradients_are_as_if_none_were_given(rng):
    x, y = history(Banana(2), 150, rng)
    one, two = (
        fit_surrogate(x, y, x[::4], rng=np.random.default_rng(1), gradients=given)
        for given in (None, np.full(x.shape, np.nan))
    )
    np.testing.assert_array_equal(one.log_density(x), two.log_density(x))


def test_a_transported_fit_takes_gradients(rng):
    """Of u, in whose coordinates a funnel is a Gaussian: eight values and eight gradients determine it."""
    funnel = Funnel(0, 0.0, np.zeros(2), np.array([0.0, 0.5]))
    x = rng.standard_normal((40, 2)) * [1.0, 1.0]
    x[:, 1] *= np.exp(0.5 * x[:, 0])

    def target(v):
        return -0.5 * v[0] ** 2 - 0.5 * v[1] ** 2 * np.exp(-v[0]) - 0.5 * v[0]

    gradients = np.full(x.shape, np.nan)
    gradients[:8] = [differences.gradient(target, row, 1e-4) for row in x[:8]]
    surrogate = fit_surrogate(
        x[:8],
        evaluate(target, x[:8]),
        x,
        rng=np.random.default_rng(1),
        transport=funnel,
        gradients=gradients[:8],
    )
    np.testing.assert_allclose(surrogate.log_density(x), evaluate(target, x), atol=1e-3)
