import json

import numpy as np
import pytest

import kmc
from kmc.run.unvisited import unvisited
from kmc.surrogates import Density, FitOptions, fit_surrogate

CENTERS, SDS, SHARES = np.array([[3.0], [-3.0]]), np.array([1.0, 0.5]), np.array([0.3, 0.7])


def two_widths(x):
    """Modes of unequal width in five dimensions: points of the wide one are far below the top of the other."""
    heights = np.log(SHARES) - 5 * np.log(SDS) - 0.5 * np.sum(((x - CENTERS) / SDS[:, None]) ** 2, axis=1)
    return float(np.logaddexp(*heights))


def draws_of(mode, n, rng, spread=1.0):
    return CENTERS[mode] + spread * SDS[mode] * rng.standard_normal((n, 5))


@pytest.fixture(scope="module")
def fitted():
    """A surrogate of both modes, and the points that it was fitted to."""
    rng = np.random.default_rng(4)
    x = np.vstack([draws_of(mode, n, rng, 1.3) for mode, n in ((0, 90), (1, 300))])
    values = np.array([two_widths(row) for row in x])
    return Density.of([fit_surrogate(x, values, x[values > -12], rng=rng, options=FitOptions())]), x, values


@pytest.mark.parametrize("seed", range(3))
def test_a_wide_mode_without_draws_is_found_with_its_mass(fitted, seed):
    density, x, values = fitted
    rng = np.random.default_rng(seed)
    (place,) = unvisited(density, x, values, draws_of(1, 500, rng), rng)
    assert place.x.sum() > 0 and place.value == two_widths(place.x)
    assert abs(place.share - 0.3) < 0.15  # entropies of some hundred draws, which depend on each other


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_found_if_both_modes_have_draws(fitted, seed):
    density, x, values = fitted
    rng = np.random.default_rng(seed)
    assert not unvisited(density, x, values, np.vstack([draws_of(0, 150, rng), draws_of(1, 350, rng)]), rng)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_a_run_says_that_its_draws_miss_a_mode_and_so_do_its_numbers():
    lost = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        initial = np.vstack([draws_of(mode, 4, rng, 1.5) for mode in (0, 1)])
        options = {"draws": None, "max_evaluations": 1000, "seed": seed, "progress": False}
        run = kmc.sample(two_widths, dim=5, initial=initial, **options)
        codes, far = json.loads(run.attrs["warning_codes"]), (run["posterior"]["x"].values.sum(axis=2) > 0).mean()
        assert ("unvisited-mode" in codes) == (far == 0)
        if far == 0:
            assert json.loads(run.attrs["mode_shares"]) == [1.0, 0.0]
            for found in (kmc.expectations(run, progress=False), kmc.evidence(run, progress=False)):
                assert any("no chain has been" in line for line in found.attrs["warnings"])
        lost.append(far == 0)
    assert any(lost) and not all(lost)
