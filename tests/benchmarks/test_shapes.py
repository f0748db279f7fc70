"""The hard shapes: draws agree with densities, and verdicts detect errors."""

import numpy as np
import pytest
from shape_rows import quality, verdict, wrong
from shape_targets import SHAPES

from tests.grids import slow_except

WALLS = [
    name
    for name, shape in SHAPES.items()
    if shape.family == "walls" or name in ("annulus", "lognormal-3d")
]
OTHERS = ("many dimensions", "controls")
SMOOTH = [
    name for name, shape in SHAPES.items() if shape.family not in OTHERS and name not in WALLS
]
LARGE = ["informed-100d", "logistic-100d", "schools-60d-centred"]
COUNT = 1000


@pytest.mark.parametrize("name", slow_except(SMOOTH + LARGE, (SMOOTH + LARGE)[::6]))
def test_the_draws_are_those_of_the_density(name):
    """E p(x + shift) / p(x) is 1 for any shift that is independent of x."""
    shape, rng = SHAPES[name], np.random.default_rng(1)
    x = shape.density.sample(rng, COUNT)
    low, high = np.quantile(x, [0.25, 0.75], axis=0)
    # a longer step leaves a thin shell
    part = 0.01 if name.startswith(("shells", "correlated")) else 0.05
    shift = part * (high - low) * rng.standard_normal(x.shape) / np.sqrt(shape.dim)
    if name.startswith(("two-drivers", "eight", "schools")):
        shift[:, 2:] = 0.0  # where the others are narrow a step is a long one
    ratio = np.array([np.exp(shape.density(b) - shape.density(a)) for a, b in zip(x, x + shift)])
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / np.sqrt(COUNT) + 1e-9
    assert ratio.std() > 1e-3


def row_of(shape, draws, warned=0):
    row = {"failure": "", "share_error": "", "warnings": warned, "seen": 2, "modes": 2}
    return row | quality(draws, shape)


@pytest.fixture(scope="module")
def two_modes():
    return SHAPES["apart-2d-0.3"]


def test_exact_draws_are_right(two_modes):
    draws = two_modes.density.sample(np.random.default_rng(3), 4000).reshape(4, 1000, 2)
    row = row_of(two_modes, draws)
    assert not wrong(row) and verdict(row) == "right"
    assert verdict(row_of(two_modes, draws, warned=1)) == "right, warned"
    assert row["ess"] > 2000 and row["mode_ess"] > 2000


def test_a_lost_mode_is_wrong_and_silent_unless_warned(two_modes):
    draws = two_modes.density.sample(np.random.default_rng(3), 8000)
    draws = draws[two_modes.label(draws) == 1][:4000].reshape(4, 1000, 2)
    assert verdict(row_of(two_modes, draws)) == "silently wrong"
    assert verdict(row_of(two_modes, draws) | {"seen": 1}) == "a mode never seen"
    assert verdict(row_of(two_modes, draws, warned=1)) == "wrong, warned"


def test_a_narrow_run_is_wrong():
    shape = SHAPES["t2-2d"]
    draws = shape.density.sample(np.random.default_rng(4), 4000).reshape(4, 1000, 2)
    assert not wrong(row_of(shape, draws))
    assert wrong(row_of(shape, 0.6 * draws)) and wrong(
        row_of(shape, draws + 0.5 * shape.truth.scale)
    )
    assert wrong({"failure": "3 draws"})
