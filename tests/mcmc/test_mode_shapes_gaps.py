"""Groups of points with gaps between them are separated, and one group is not divided."""

import numpy as np
import pytest

from kmc.mcmc.mode_shapes import divided, gap


@pytest.mark.parametrize("dim", [2, 5, 10])
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_a_gap_between_two_groups_is_found(dim, share):
    rng = np.random.default_rng(dim)
    side = rng.random(600) < share
    z = rng.standard_normal((600, dim)) + 10.0 * side[:, None] * np.ones(dim) / np.sqrt(dim)
    found = gap(z, rng)
    assert np.array_equal(found, side) or np.array_equal(found, ~side)


@pytest.mark.parametrize("seed", range(10))
def test_a_narrow_group_beside_one_with_heavy_tails_is_found(seed):
    """By kurtosis alone six seeds of ten succeed: that of the tails is larger than the one between the two."""
    rng = np.random.default_rng(seed)
    side = np.arange(300) < 150
    z = np.where(side[:, None], 6.0 * rng.standard_t(3, (300, 10)), 0.5 * rng.standard_normal((300, 10)))
    found = gap(z + 80.0 * side[:, None] / np.sqrt(10), rng)
    assert np.array_equal(found, side) or np.array_equal(found, ~side)


def test_several_groups_are_separated():
    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(4), 100)
    z = rng.standard_normal((400, 3)) + 12.0 * np.vstack([np.zeros(3), np.eye(3)])[labels]
    groups = divided(z, rng)
    assert sorted(sorted(set(labels[group].tolist())) for group in groups) == [[0], [1], [2], [3]]


@pytest.mark.parametrize("dim", [2, 5, 10])
def test_one_group_has_no_gap(dim):
    rng = np.random.default_rng(dim)
    gaussian = rng.standard_normal((600, dim))
    assert gap(gaussian, rng) is None
    bent = gaussian.copy()
    bent[:, 0] *= 5.0
    bent[:, 1] += 0.3 * bent[:, 0] ** 2
    assert gap(bent, rng) is None
    ring = gaussian / np.linalg.norm(gaussian, axis=1)[:, None]
    assert gap(ring, rng) is None
    assert gap(gaussian[: 2 * dim], rng) is None  # too few points
