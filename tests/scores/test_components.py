import numpy as np
import pytest

from kmc.scores.components import draw_components


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def test_all_by_default(rng):
    np.testing.assert_array_equal(draw_components(None, 3, 2, rng), np.arange(6))


@pytest.mark.parametrize("count", [1, 5, 12, 50])
def test_a_count_is_of_distinct_components(rng, count):
    chosen = draw_components(count, 4, 3, rng)
    assert len(np.unique(chosen)) == len(chosen) == min(count, 12)
    np.testing.assert_array_equal(chosen, np.sort(chosen))


def test_a_probability_is_kept_to(rng):
    sizes = [len(draw_components(0.3, 50, 10, rng)) for _ in range(200)]
    assert np.mean(sizes) == pytest.approx(150, abs=4 * np.sqrt(500 * 0.3 * 0.7 / 200))


def test_some_of_each_landmark(rng):
    counts = np.array([0, 3, 1, 2])
    chosen = draw_components(counts, 4, 3, rng)
    np.testing.assert_array_equal(np.bincount(chosen // 3, minlength=4), counts)
    np.testing.assert_array_equal(np.bincount(draw_components([2], 4, 3, rng) // 3), np.full(4, 2))


def test_components_of_a_landmark_are_equally_likely(rng):
    chosen = np.concatenate([draw_components([1], 100, 4, rng) for _ in range(30)]) % 4
    assert np.abs(np.bincount(chosen) / 3000 - 0.25).max() < 4 * np.sqrt(0.25 * 0.75 / 3000)


@pytest.mark.parametrize("components", [0, -1, 0.0, 1.5, np.nan, [1, 2], [5], [-1], [0], [[1]], [0.5]])
def test_values_out_of_range(rng, components):
    with pytest.raises(ValueError, match="components=.*expected a count"):
        draw_components(components, 4, 3, rng)


@pytest.mark.parametrize("components", ["all", True, np.timedelta64(2, "s")])
def test_types(rng, components):
    with pytest.raises(TypeError, match="components="):
        draw_components(components, 4, 3, rng)
