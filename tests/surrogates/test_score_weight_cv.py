import numpy as np

from kmc.surrogates.expansion import REGULARIZATIONS, Data, fit_expansion
from kmc.surrogates.score_weight_cv import FOLDS, SHARES, PointFolds, _held_out, make_folds, with_best_share
from tests.oracles import expansion as oracle

JITTER, FACTORS = 1e-8, (0.5, 1.0, 2.0)


def bump(z):
    """A log-density on top of a standard normal: two modes."""
    return np.log(np.cosh(1.5 * z[:, 0]))


def draws(rng, n):
    """From exp(bump) times a standard normal: an equal mixture of two normals."""
    z = rng.standard_normal((n, 2))
    z[:, 0] += 1.5 * rng.choice([-1.0, 1.0], n)
    return z


def problem(n, k, sd, m=20, seed=2):
    rng = np.random.default_rng(seed)
    z, states = 1.5 * rng.standard_normal((n, 2)), draws(rng, k)
    return Data(
        z=z,
        residual=bump(z) + sd * rng.standard_normal(n),
        weights=np.full(n, 1 / n),
        centers=z[:m],
        score_weight=0.0,
        states=states,
        base_gradient=-states,
        noisy=True,
    )


def best(data, seed=3):
    rng = np.random.default_rng(seed)
    expansion = fit_expansion(data, np.eye(2), FACTORS, jitter=JITTER)
    return expansion, with_best_share(
        data, expansion, make_folds(data.z, data.states, rng), factors=FACTORS, jitter=JITTER
    )


def error(expansion):
    z = draws(np.random.default_rng(4), 2000)
    return np.std(expansion.values(z) - bump(z))


def test_states_help_where_the_noise_is_large():
    """Sixty values with noise of two nats, and 2,000 states: not always beyond doubt, and then a clear gain."""
    gains = []
    for seed in range(6):
        values_only, mixed = best(problem(60, 2000, 2.0, seed=seed))
        if mixed.score_weight > 0:
            gains.append(error(mixed) / error(values_only))
    assert len(gains) >= 2 and np.median(gains) < 0.8


def test_values_alone_where_they_are_good():
    values_only, mixed = best(problem(400, 50, 0.1))
    assert mixed is values_only and mixed.score_weight == 0.0


def test_equal_points_are_in_one_fold():
    rng = np.random.default_rng(5)
    x = rng.standard_normal((60, 2))
    x[40:] = x[:20]
    folds = make_folds(x, x[10:50], rng)
    assert np.array_equal(folds.values[40:], folds.values[:20])
    assert np.array_equal(folds.states, folds.values[10:50])
    assert set(folds.values) == set(range(FOLDS))
    assert max(np.bincount(folds.values[:40])) <= 9


def test_held_out_residuals_are_those_of_a_fit_to_the_rest():
    data, factor = problem(30, 15, 0.5, m=6), 1.0
    folds = PointFolds(np.arange(30) % FOLDS, np.arange(15) % FOLDS)
    found = _held_out(data, np.eye(2), folds, factor=factor, jitter=1e-6)
    expansion = fit_expansion(data, np.eye(2), (factor,), jitter=1e-6)
    for share, at in [(0, 20), (1, 24), (3, 28)]:
        for fold in range(FOLDS):
            out, states = folds.values == fold, folds.states != fold
            rest = data._replace(
                z=data.z[~out],
                residual=data.residual[~out],
                weights=data.weights[~out] / data.weights[~out].sum(),
                states=data.states[states],
                base_gradient=data.base_gradient[states],
                score_weight=SHARES[share],
            )
            kernel = (expansion.kernel.bandwidth, np.eye(2), REGULARIZATIONS[at], 1e-6)
            alpha, constant = oracle.solve(rest, kernel)
            squares = np.sum((data.z[out][:, None] - data.centers) ** 2, axis=2)
            foretold = constant + np.exp(-squares / (2 * expansion.kernel.bandwidth**2)) @ alpha
            np.testing.assert_allclose(found[out, share, at], data.residual[out] - foretold, atol=1e-6)


def test_too_few_states_for_folds():
    data = problem(100, 3, 1.0)
    values_only, mixed = best(data)
    assert mixed is values_only
