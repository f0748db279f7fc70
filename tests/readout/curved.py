"""A curved density with known moments, whose run several files read out."""


def log_density(x):
    """Of a normal coordinate with sd 2, and of another that follows its square."""
    return -0.5 * (x[0] ** 2 / 4 + (x[1] - 0.1 * (x[0] ** 2 - 4)) ** 2)
