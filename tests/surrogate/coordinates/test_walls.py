from dataclasses import replace

import numpy as np
import pytest

from kmc.surrogate.coordinates.walls import Regions, learn_wall

RNG = np.random.default_rng(5)


def learned(inside, states, extra=3000, spread=0.6):
    """The wall of points around states, where ``inside`` (rows to booleans) says which have a
    density.
    """
    rng = np.random.default_rng(1)
    x = states[rng.integers(len(states), size=extra)]
    x = np.vstack([states, x + spread * states.std(axis=0) * rng.standard_normal(x.shape)])
    return learn_wall(x, np.where(inside(x), 0.0, -np.inf), states, rng=rng)


def wrong(wall, inside, states):
    """Shares of states taken for forbidden, and of forbidden neighbors taken for allowed."""
    near = states + 0.3 * states.std(axis=0) * np.random.default_rng(2).standard_normal(
        states.shape
    )
    return wall.behind(states).mean(), (~wall.behind(near[~inside(near)])).mean()


def half_space(x):
    return x @ np.arange(1.0, 5.0) > 0


def box(x):
    return np.all((x > 0) & (x < [1.0, 200.0, 3.0]), axis=1)


def simplex(x):
    return np.all(x > 0, axis=1) & (x.sum(axis=1) < 1)


def parabola(x):
    return x[:, 1] > 0.5 * x[:, 0] ** 2 - 0.5


def hole(x):
    return np.linalg.norm(x - 1.0, axis=1) > 1.0


CASES = {
    "half-space": (half_space, RNG.standard_normal((3000, 4)), "a plane"),
    "box": (box, RNG.random((1000, 3)) * [1, 200, 3], None),
    "simplex": (simplex, RNG.dirichlet(np.ones(5), 1500)[:, :-1], None),
    "parabola": (parabola, RNG.standard_normal((3000, 3)), "a curved surface"),
    "hole": (hole, RNG.standard_normal((3000, 3)), "a curved surface"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_wall_is_found(name):
    inside, states, words = CASES[name]
    states = states[inside(states)]
    train, test = states[: len(states) // 2], states[len(states) // 2 :]
    wall = learned(inside, train)
    forbidden, allowed = wrong(wall, inside, test)
    assert forbidden < 0.02 and allowed < 0.15
    assert words is None or wall.description() == words


def test_walls_along_axes_are_named():
    _, states, _ = CASES["box"]
    wall = learned(box, states)
    said = wall.description()
    assert all(f"x[{i}] > " in said and f"x[{i}] < " in said for i in range(3)), said
    top = float(said.partition("x[1] < ")[2].split(" ")[0])
    assert abs(top - 200) < 10


def test_no_wall_where_there_is_none_or_far_away():
    states = RNG.standard_normal((500, 3))
    x = 3 * RNG.standard_normal((2000, 3))
    assert learn_wall(x, np.zeros(len(x)), states, rng=RNG) is None
    assert (
        learn_wall(x, np.where(np.linalg.norm(x, axis=1) > 7, -np.inf, 0.0), states, rng=RNG)
        is None
    )


def test_a_wall_keeps_its_regions_and_others_are_added():
    """Nothing tests a last fit, so it does not choose anew: a wedge is a curved surface, too, one
    half of it false.
    """
    rng = np.random.default_rng(3)

    def wedge(x):
        return (x[:, 0] > 0) & (x[:, 1] > x[:, 0])

    states = np.abs(rng.standard_normal((400, 2))) @ np.array([[1.0, 1.0], [0.0, 1.0]])
    x = np.vstack([states, 3.0 * rng.standard_normal((400, 2))])
    values = np.where(wedge(x), 0.0, -np.inf)
    one = learn_wall(x, values, states, rng=rng)
    (first, *_), curved = one.regions
    for rows, kind in (
        ([first], curved),
        ([first] * 5, curved),
        ([np.append(first, [0.0] * 3)], True),
    ):
        known = replace(one, regions=Regions(np.array(rows), kind))
        kept = learn_wall(x, values, states, rng=rng, last=known)
        assert kept.regions.curved == kind and kept.whitening is known.whitening
        assert len(kept.regions.coefficients) >= max(len(rows), 1 if kind else 2)
        assert kept.behind(x[~wedge(x)]).mean() > 0.9 and kept.behind(states).mean() < 0.05
