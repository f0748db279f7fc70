"""Kpotufe and Sriperumbudur (2020), "Gaussian sketching yields a J-L lemma in RKHS", by loops over
points.

The paper's Gaussian kernel exp(-|x - y|²/σ²) is exp(-|x - y|²/(2 bandwidth²)) with σ² = 2
bandwidth².
"""

import numpy as np


def kernel(x, y, bandwidth):
    """K(x, y) = exp(-|x - y|²/σ²)."""
    return np.exp(-np.sum((x - y) ** 2) / (2 * bandwidth**2))


def gram(xs, ys, bandwidth):
    """K_ij = K(x_i, y_j)."""
    return np.array([[kernel(x, y, bandwidth) for y in ys] for x in xs])


def centered(points, x, y, bandwidth):
    """<K(., x) - μ, K(., y) - μ> with μ the mean of the K(., p) over points: the centralized
    kernel.
    """
    n = len(points)
    value = kernel(x, y, bandwidth)
    value -= sum(kernel(x, p, bandwidth) for p in points) / n
    value -= sum(kernel(p, y, bandwidth) for p in points) / n
    return value + sum(kernel(p, q, bandwidth) for p in points for q in points) / n**2


def centered_gram(points, xs, ys, bandwidth):
    """The centralized kernel at pairs of points."""
    return np.array([[centered(points, x, y, bandwidth) for y in ys] for x in xs])


def kernel_jl(points, x, z, bandwidth):
    """V̂ᵀ S_X f for f = K(., x) - μ, with V̂ᵀ = Z K / (n √(n d)) (section 5): x's image, shape
    (d,).
    """
    d, n = z.shape
    sampled = np.array([centered(points, x, p, bandwidth) for p in points])  # S_X f
    v = z @ centered_gram(points, points, points, bandwidth) / (n * np.sqrt(n * d))
    return v @ sampled


def kernel_jl_uncentered(points, x, z, bandwidth):
    """Z K f_X / √(n³ d) for f = K(., x), equation 1 as it is written: x's image, shape (d,)."""
    d, n = z.shape
    return (
        z
        @ gram(points, points, bandwidth)
        @ np.array([kernel(p, x, bandwidth) for p in points])
        / np.sqrt(n**3 * d)
    )


def third_power(points, x, y, bandwidth):
    """<f, Σ_n³ g> for f = K(., x) - μ and g = K(., y) - μ, the operator Σ_n applied to g three
    times.

    Σ_n g = (1/n) Σ_i g(X_i) k_i with k_i = K(., X_i) - μ, and g(X_i) is <g, k_i>: a function in the
    span of the k_i is kept as its coefficients.
    """
    n = len(points)
    inner = centered_gram(points, points, points, bandwidth)
    coefficients = np.array([centered(points, y, p, bandwidth) for p in points]) / n
    for _ in range(2):
        coefficients = (
            np.array([sum(coefficients[j] * inner[j, i] for j in range(n)) for i in range(n)]) / n
        )
    return sum(coefficients[i] * centered(points, x, points[i], bandwidth) for i in range(n))


def nystrom_gram(points, xs, d, bandwidth):
    """K̃_N = K_(N,n) K†_(d) K_(N,n)ᵀ with the rank-d pseudo-inverse K†_(d) of K, section 5.2."""
    values, vectors = np.linalg.eigh(gram(points, points, bandwidth))
    pseudo_inverse = sum(
        np.outer(vectors[:, k], vectors[:, k]) / values[k] for k in np.argsort(values)[::-1][:d]
    )
    across = gram(xs, points, bandwidth)
    return across @ pseudo_inverse @ across.T


def kernel_pca(points, x, d, bandwidth):
    """Σ_i α_i K̄(x, x_i) for the leading eigenvectors α of K̄, section 5.2; α of length 1/√λ, so
    that |Σ α_i k_i| = 1.
    """
    values, vectors = np.linalg.eigh(centered_gram(points, points, points, bandwidth))
    image = []
    for k in np.argsort(values)[::-1][:d]:
        alpha = vectors[:, k] / np.sqrt(values[k])
        image.append(sum(a * centered(points, x, p, bandwidth) for a, p in zip(alpha, points)))
    return np.array(image)


def rand_index(first, second):
    """Share of pairs of points that two partitions treat alike, together or apart."""
    n = len(first)
    alike = sum(
        (first[i] == first[j]) == (second[i] == second[j]) for i in range(n) for j in range(i)
    )
    return alike / (n * (n - 1) / 2)


def kmeans_partition(points, k):
    """Least Σ |x - mean of its cluster|² over all partitions into k clusters that are not empty."""
    best, labels = np.inf, None
    for code in range(k ** len(points)):
        trial = np.array([code // k**i % k for i in range(len(points))])
        if len(set(trial)) < k:
            continue
        inertia = sum(
            np.sum((points[trial == c] - points[trial == c].mean(axis=0)) ** 2) for c in range(k)
        )
        if inertia < best:
            best, labels = inertia, trial
    return best, labels
