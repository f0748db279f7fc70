"""Gaussian-process regression, literally: loops over pairs, and differences in place of
derivatives.
"""

import numpy as np

STEP = 1e-3


def kernel(x, y, theta, coordinates):
    """The prior covariance of two values, at points x and y (d,)."""
    z = (x - coordinates.center) @ coordinates.whitening
    w = (y - coordinates.center) @ coordinates.whitening
    u, v = z @ coordinates.metric, w @ coordinates.metric
    axes = range(len(z))
    own, there = ([along_axis(place, j, coordinates) for j in axes] for place in (z, w))
    squares = sum((own[j] * there[j] / 3) ** 2 for j in axes)
    share = np.exp(theta.products)
    quadratic = 1 + 2 * z @ w / 3 + share * (z @ w / 3) ** 2 + (1 - share) * squares
    quadratic *= np.exp(2 * theta.quadratic)
    if coordinates.scales:
        product = z @ w
        for j, rate in coordinates.scales:
            e, f = (np.exp(rate * (point[j] - coordinates.center[j])) for point in (x, y))
            product += e * f + (e * z) @ (f * w)
        bent = np.exp(2 * theta.bent) * (1 + product / 3) ** 2
    else:
        square = np.sum(coordinates.metric**2) / len(z)
        bent = np.exp(2 * theta.bent) * (1 + u @ v / (3 * square)) ** 4
    r = np.sqrt(5 * np.sum((u - v) ** 2)) / np.exp(theta.length)
    return quadratic + bent + np.exp(2 * theta.matern) * (1 + r + r**2 / 3) * np.exp(-r)


def along_axis(z, j, coordinates):
    """z along the direction in which the j-th parameter grows."""
    rise = np.linalg.inv(coordinates.whitening)[:, j]
    return z @ rise / np.linalg.norm(rise)


def along(f, x, direction):
    """The derivative of f at x along a direction: central differences of order four."""
    h = STEP * direction
    return (8 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))) / (12 * STEP)


def functionals(points, gradient_points, coordinates):
    """Linear functionals of a function f of x: its values, and its derivatives along z."""
    found = [lambda f, x=x: f(x) for x in points]
    directions = np.linalg.inv(coordinates.whitening)  # its rows are steps of one unit of z
    for x in gradient_points:
        found += [lambda f, x=x, step=step: along(f, x, step) for step in directions]
    return found


def covariances(a, b, theta, coordinates):
    """Covariances between two lists of functionals."""
    return np.array(
        [[p(lambda x, q=q: q(lambda y: kernel(x, y, theta, coordinates))) for q in b] for p in a]
    )


def negative_log_likelihood(K, y, ones):
    """Minus the log of the density of y (n,) with a flat prior of the constant, without factors of
    2π.
    """
    inverse = np.linalg.inv(K)
    precision = ones @ inverse @ ones
    m = ones @ inverse @ y / precision
    r = y - m * ones
    return 0.5 * (r @ inverse @ r + np.linalg.slogdet(K)[1] + np.log(precision))


def predict(K, cross, prior, y, ones, ones_there):
    """Means and covariances at new places: a very wide prior of the constant in place of a flat
    one.
    """
    wide = 1e8
    K = K + wide * np.outer(ones, ones)
    cross = cross + wide * np.outer(ones, ones_there)
    prior = prior + wide * np.outer(ones_there, ones_there)
    return cross.T @ np.linalg.solve(K, y), prior - cross.T @ np.linalg.solve(K, cross)
