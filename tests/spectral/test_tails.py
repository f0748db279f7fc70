import numpy as np
import pytest

from kmc.spectral.tails import is_flat, is_heavy

N = 2000
ONES = np.ones(N)


def judge(x):
    """The first mode of a symmetric density is odd and increasing: about x itself, as far as tails
    go.
    """
    return is_heavy(x, x[:, 0], ONES, ONES)


@pytest.mark.parametrize("seed", range(3))
def test_normal_and_lighter_tails(seed):
    rng = np.random.default_rng(seed)
    assert not judge(rng.standard_normal((N, 1)))
    assert not judge(rng.standard_normal((N, 30)))
    assert not judge(rng.uniform(-1, 1, (N, 2)))


@pytest.mark.parametrize("seed", range(3))
def test_exponential_and_heavier_tails(seed):
    rng = np.random.default_rng(seed)
    assert judge(rng.laplace(size=(N, 1)))
    assert judge(rng.standard_t(4, (N, 2)))


def test_a_mode_that_grows_along_the_tail():
    """sinh(x / 2) for exponential tails, with samples that alone do not show it."""
    x = np.clip(np.random.default_rng(0).laplace(size=(N, 1)), -4, 4)
    f, slope = np.sinh(x[:, 0] / 2), np.cosh(x[:, 0] / 2) / 2
    assert is_heavy(x, f, slope**2, ONES)


def test_a_rare_state_is_no_tail():
    rng = np.random.default_rng(0)
    x = np.where(rng.random((N, 1)) < 0.04, 6.0, 0.0) + 0.5 * rng.standard_normal((N, 1))
    f, slope = np.tanh(2 * (x[:, 0] - 3)), 2 / np.cosh(2 * (x[:, 0] - 3)) ** 2
    assert not is_heavy(x, f, slope**2, ONES)


def test_the_score_in_the_tail():
    """Weights of a quarter of the samples give the same answers."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, 5))
    part = np.where(np.arange(N) % 4, 0.0, 1.0)
    for weights in (ONES, part):
        assert not is_flat(x, x[:, 0], -x, weights)
        tails = rng.laplace(size=(N, 5))
        assert is_flat(tails, tails[:, 0], -tails / np.sqrt(1 + tails**2), weights)
        t = rng.standard_t(5, (N, 1))
        assert is_flat(t, t[:, 0], -6 * t / (5 + t**2), weights)
        wells = rng.choice([-1, 1], (N, 1)) + 0.3 * rng.standard_normal((N, 1))
        assert not is_flat(wells, np.sign(wells[:, 0]), -20 * wells * (wells**2 - 1), weights)
    assert not is_flat(x[:50], x[:50, 0], 0 * x[:50], ONES[:50])
