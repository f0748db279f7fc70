import numpy as np
import pytest
from score_defaults import DENSITIES
from score_peers import KERNELS, estimates

X = np.random.default_rng(0).standard_normal((12, 2))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_kernels_and_divergences(kernel):
    """By differences of k(x, y) = ψ(|x - y|²): k I, or its Hessian in x and y."""

    def psi(x, y):
        return float(kernel.derivatives(np.sum((x - y) ** 2), 1.3)[0])

    step, eye = 1e-4, np.eye(2)

    def matrix(x, y):
        if not kernel.curl_free:
            return psi(x, y) * eye
        ends = [(a, b) for a in (step, -step) for b in (step, -step)]
        return np.array(
            [[sum(a * b * psi(x + a * i, y + b * j) for a, b in ends) / (4 * step**4) for j in eye] for i in eye]
        )

    product, divergence = kernel.between(X[:3], X, 1.3)
    z = np.random.default_rng(1).standard_normal(X.shape)
    expected = [sum(matrix(x, y) @ c for y, c in zip(X, z, strict=True)) for x in X[:3]]
    np.testing.assert_allclose(product(z), expected, atol=1e-5)
    wide = 1e-2
    expected = [
        np.mean([sum((matrix(x, y + wide * i) - matrix(x, y - wide * i)) @ i for i in eye) for y in X], axis=0)
        / (2 * wide)
        for x in X[:3]
    ]
    np.testing.assert_allclose(divergence, expected, atol=1e-3)


def test_estimates_of_a_normal_distribution():
    rng = np.random.default_rng(2)
    x, points = rng.standard_normal((200, 2)), rng.standard_normal((100, 2))
    least: dict[str, float] = {}
    for kernel in KERNELS:
        with np.errstate(all="ignore"):
            for name, found in estimates(x, points, kernel, 2.0):
                error = np.sum((found + points) ** 2) / np.sum(points**2)
                least[name] = min(least.get(name, np.inf), error if np.isfinite(error) else np.inf)
    assert set(least) == {"Tikhonov (KEF)", "nu-method", "Landweber", "spectral cutoff (SSGE)", "Stein"}
    assert max(least.values()) < 0.35


@pytest.mark.parametrize("density", DENSITIES, ids=lambda density: density.name)
def test_draws_have_their_scores(density):
    """Stein's identity, E x·s = -d and E s = 0, within five standard errors."""
    x = density.draw(np.random.default_rng(3), 20_000, density.dim)
    score = density.score(x)
    terms = np.column_stack([np.sum(x * score, axis=1) + density.dim, score])
    error = terms.std(axis=0) / np.sqrt(len(x))
    assert np.all(np.abs(terms.mean(axis=0)) < 5 * error)
