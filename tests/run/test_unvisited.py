import json

import numpy as np
import pytest
from scipy import stats

import kmc
from kmc.run.structure import structured
from kmc.run.unvisited import unvisited
from kmc.surrogate.coordinates.funnels import Funnel
from kmc.surrogate.coordinates.transport import IDENTITY
from kmc.surrogate.coordinates.whitening import Whitening
from kmc.surrogate.density import Component, Density
from kmc.surrogate.emulator.emulated import Emulator
from kmc.surrogate.process import Seen
from tests.control_variates.synthetic import gaussian_state
from tests.run.test_structure import evaluated as outputs_of

CENTERS, SDS, SHARES = np.array([[3.0], [-3.0]]), np.array([1.0, 0.5]), np.array([0.3, 0.7])


def two_widths(x):
    """Modes of unequal width in five dimensions: points of the wide one are far below the top of
    the other.
    """
    heights = (
        np.log(SHARES) - 5 * np.log(SDS) - 0.5 * np.sum(((x - CENTERS) / SDS[:, None]) ** 2, axis=1)
    )
    return float(np.logaddexp(*heights))


def draws_of(mode, n, rng, spread=1.0):
    return CENTERS[mode] + spread * SDS[mode] * rng.standard_normal((n, 5))


STATE = gaussian_state(np.zeros(5), centers=[np.full(5, 4.5)], coefficients=[55.6], rate=1.0)
DENSITY = Density((Component(IDENTITY, Whitening(np.zeros(5), np.eye(5), np.eye(5)), STATE),))
"""A normal mode, which is wide, and a narrow one that is higher, with a deep valley between them.
"""


def in_the_narrow_mode(n, rng):
    """Draws (n, 5), and the mode's mass relative to that of the other, which is that of a normal
    density.
    """
    law = stats.multivariate_t(np.full(5, 4.5), 0.07 * np.eye(5), 8)
    x = law.rvs(40_000, random_state=rng)
    weights = np.exp(DENSITY.log_density(x) - law.logpdf(x) - 2.5 * np.log(2 * np.pi))
    return x[rng.choice(len(x), n, p=weights / weights.sum())], weights.mean()


@pytest.fixture(scope="module")
def evaluated():
    """Points in both modes and beside them, and their values."""
    rng = np.random.default_rng(4)
    x = np.vstack([1.3 * rng.standard_normal((90, 5)), 4.5 + 0.4 * rng.standard_normal((300, 5))])
    return x, DENSITY.log_density(x)


@pytest.mark.parametrize("seed", range(3))
def test_a_wide_mode_without_draws_is_found_with_its_mass(evaluated, seed):
    rng = np.random.default_rng(seed)
    draws, mass = in_the_narrow_mode(500, rng)
    (place,) = unvisited(DENSITY, *evaluated, draws, rng)
    assert place.x.sum() < 10 and place.value == DENSITY.log_density(place.x[None])[0]
    assert 0.15 < 1 / (1 + mass) < 0.5
    # entropies of some hundred draws, which depend on each other
    assert abs(place.share - 1 / (1 + mass)) < 0.15


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_found_if_both_modes_have_draws(evaluated, seed):
    rng = np.random.default_rng(seed)
    draws = np.vstack([rng.standard_normal((150, 5)), in_the_narrow_mode(350, rng)[0]])
    assert not unvisited(DENSITY, *evaluated, draws, rng)


def test_a_high_value_far_from_all_draws_is_found_although_chains_of_the_surrogate_go_there():
    """The draws are a part of a normal mode, so that every chain that begins at them leaves it."""
    rng = np.random.default_rng(0)
    normal = Density(
        (
            Component(
                IDENTITY, Whitening(np.zeros(5), np.eye(5), np.eye(5)), gaussian_state(np.zeros(5))
            ),
        )
    )
    draws = -1.0 + 0.05 * rng.standard_normal((300, 5))
    x = np.vstack([draws, np.full((1, 5), 0.3)])
    values = normal.log_density(x)
    (place,) = unvisited(normal, x, values, draws, rng)
    assert np.all(place.x == 0.3) and place.value == values[-1]
    assert not unvisited(normal, x[:-1], values[:-1], draws, rng)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_a_run_says_that_its_draws_miss_a_mode_and_so_do_its_numbers():
    lost = []
    for seed in (3, 5):
        rng = np.random.default_rng(seed)
        initial = np.vstack([draws_of(mode, 4, rng, 1.5) for mode in (0, 1)])
        options = {"draws": None, "max_evaluations": 1000, "seed": seed, "progress": False}
        run = kmc.sample(two_widths, dim=5, initial=initial, **options)
        codes, far = (
            json.loads(run.attrs["warning_codes"]),
            (run["posterior"]["x"].values.sum(axis=2) > 0).mean(),
        )
        assert ("unvisited-mode" in codes) == (far == 0)
        if far == 0:
            assert 0.05 < run.attrs["mass_left"] < 1.0
            for found in (kmc.expectations(run, progress=False), kmc.evidence(run, progress=False)):
                assert any("no chain has been" in line for line in found.attrs["warnings"])
        lost.append(far == 0)
    assert any(lost) and not all(lost)


def test_a_funnel_s_neck_is_no_mode():
    """The density of the parameters has no bound there, but that of the coordinates has."""
    rng = np.random.default_rng(1)
    slopes = np.array([0.0, 2.0, 2.0, 2.0, 2.0])
    funnel = Funnel(driver=0, origin=0.0, centers=np.zeros(5), slopes=slopes)
    state = gaussian_state(np.zeros(5))
    whole = Component(funnel, Whitening(np.zeros(5), np.eye(5), np.eye(5)), state)
    neck = np.array([[-4.0, 0.0, 0.0, 0.0, 0.0]])
    x = np.vstack([funnel.back(0.5 * rng.standard_normal((400, 5))), neck])
    values = whole.log_density(x)
    assert values.argmax() == 400
    draws = funnel.back(0.3 * rng.standard_normal((1000, 5)))
    assert not unvisited(Density((whole,)), x, values, draws, rng)


def test_a_point_that_is_high_and_narrow_is_no_mode():
    """Where outputs are the data and the noise is nil, there is density, but no mass."""
    data = np.array([0.3, -1.2])
    model = kmc.Model(
        simulator=lambda p: p["x"],
        likelihood=kmc.likelihoods.Normal(data, sd="noise"),
        parameters={"x": kmc.Normal(0, 1, shape=2), "noise": kmc.LogNormal(-1, 2)},
        inputs=["x"],
    )
    rng = np.random.default_rng(1)
    grid = np.linspace(-5.0, 6.0, 2001)
    variance = 1.0 + np.exp(2.0 * grid)
    log_density = -0.5 * ((grid + 1.0) ** 2 / 4.0 + 2.0 * np.log(variance) + data @ data / variance)
    weights = np.exp(log_density - log_density.max())
    log_noise = rng.choice(grid, 800, p=weights / weights.sum())
    variance = 1.0 + np.exp(2.0 * log_noise[:, None])
    noise = np.sqrt(1.0 - 1.0 / variance) * rng.standard_normal((800, 2))
    draws = np.column_stack([data / variance + noise, log_noise])
    x = np.vstack([draws[:60], np.append(data, -11.0)])
    values, outputs = outputs_of(model, x)
    assert values.argmax() == 60
    seen = Seen(x, values, draws, np.full(x.shape, np.nan), outputs=outputs)
    component = Component.of(Emulator(structured(model).structure).first(seen, rng))
    assert not unvisited(Density((component,)), x, values, draws, rng)
