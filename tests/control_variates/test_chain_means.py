"""Means over chains, with control variates."""

import numpy as np

from kmc.control_variates.chain_means import ChainMeans


def both(x):
    return np.concatenate([x, x**2], axis=-1)


def estimates(rng, controls_of, n=200, repeats=40):
    """Mean of x and x² by all chains, with and without controls (repeats, 2)."""
    found, plain = [], []
    for _ in range(repeats):
        x = rng.standard_normal((32, n, 1))
        means = ChainMeans()
        for half in np.split(x, 2, axis=1):
            means.extend(half, controls_of(half))
        assert means.length == n
        found.append(means.by_chain(both).mean(axis=0))
        plain.append(both(x).mean(axis=(0, 1)))
    return np.array(found), np.array(plain)


def test_related_controls_reduce_the_error_without_bias():
    rng = np.random.default_rng(0)
    found, plain = estimates(
        rng, lambda x: np.concatenate([np.tanh(x), x * np.sin(x) - np.exp(-0.5)], axis=-1)
    )
    error = found - [0, 1]
    assert np.all(found.std(axis=0) < [0.5, 0.9] * plain.std(axis=0))
    assert np.all(np.abs(error.mean(axis=0)) < 4 * found.std(axis=0) / np.sqrt(len(found)))


def test_unrelated_controls_do_no_harm():
    rng = np.random.default_rng(1)
    found, plain = estimates(rng, lambda x: rng.standard_normal((*x.shape[:2], 100)))
    np.testing.assert_allclose(found, plain, atol=0.02 * plain.std(axis=0).max())


def test_more_controls_than_draws_are_not_used():
    rng = np.random.default_rng(2)
    found, plain = estimates(rng, lambda x: rng.standard_normal((*x.shape[:2], 600)), repeats=1)
    np.testing.assert_allclose(found, plain, rtol=1e-12)
