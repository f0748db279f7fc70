"""The identities of pairs, by enumeration of chains that have states where the target's density is
zero.
"""

import numpy as np
import pytest

from kmc.control_variates.replicate import Transitions
from tests.oracles import pairs_of_states as oracle

ROWS = 400_000

LINE = np.array([1.0, 2.0, 3.0, 2.0, 4.0, 1.0, 2.0, 3.0, 1.0, 2.0, 5.0, 2.0])
CHAINS = {
    "three states, the dead one apart": (
        [1.0, 1.0, 0.0],
        [1.0, 1.0, 2.0],
        np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]),
    ),
    "three states, independent proposals": (
        [1.0, 1.0, 0.0],
        [1.0, 1.0, 2.0],
        np.tile([0.25, 0.25, 0.5], (3, 1)),
    ),
    "twelve states": (
        np.where(np.arange(12) < 7, np.arange(1.0, 13.0), 0.0),
        LINE,
        oracle.metropolis(LINE, 9),
    ),
}


def enumerated(p, s, kernel, inside):
    """Transitions whose rows are all pairs, in proportion to their probabilities, and the states of
    the pairs.
    """
    rows = [(i, j, round(probability * ROWS)) for i, j, probability in oracle.pairs(p, kernel)]
    x, y = (np.repeat([row[k] for row in rows], [row[2] for row in rows])[None] for k in (0, 1))
    with np.errstate(divide="ignore"):
        log_h = np.log(p) - np.log(s)
    found = Transitions.of(log_h[x], log_h[y], np.ones(x.shape, bool))
    return (found if inside is None else found.within(inside[x], inside[y])), x, y


def regions(p):
    """Of the living states; of all but one of these and with a dead one; and everything."""
    living = np.asarray(p) > 0
    mixed = living.copy()
    mixed[0], mixed[np.argmin(living)] = False, True
    return living, mixed, None


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("which", [0, 1, 2], ids=["living states", "with a dead one", "everywhere"])
def test_the_identities_in_a_region(name, which):
    p, s, kernel = (np.asarray(part, float) for part in CHAINS[name])
    inside = regions(p)[which]
    pairs, x, y = enumerated(p, s, kernel, inside)
    held = np.ones(len(p), bool) if inside is None else inside
    g, one = np.sin(1.0 + np.arange(len(p))), np.ones(len(p))
    lost = oracle.unseen(p, s, kernel, held, one)
    seen = oracle.mass(s, held, one) - lost

    ratio, series = pairs.ratio()
    assert ratio * np.exp(-pairs.shift) == pytest.approx(seen / p.sum(), rel=1e-3)
    assert abs(series.mean()) < 1e-9
    mean = pairs.of_surrogate(g[x][..., None], g[y][..., None]).mean()
    assert mean == pytest.approx(
        (oracle.mass(s, held, g) - oracle.unseen(p, s, kernel, held, g)) / seen, abs=1e-3
    )
    reached = oracle.reached(p, s, kernel, held, g)
    assert pairs.unseen(g[y][..., None])[0] == pytest.approx(reached / seen, abs=1e-3)
    assert pairs.of_target(g[x][..., None], g[y][..., None]).mean() == pytest.approx(
        oracle.target_mean(p, g), abs=1e-3
    )


@pytest.mark.parametrize("name", CHAINS)
def test_in_the_region_of_living_states_nothing_is_unseen(name):
    p, s, kernel = (np.asarray(part, float) for part in CHAINS[name])
    pairs, x, y = enumerated(p, s, kernel, p > 0)
    g = np.cos(np.arange(len(p)))
    assert np.exp(-pairs.shift) * pairs.ratio()[0] == pytest.approx(
        s[p > 0].sum() / p.sum(), rel=1e-3
    )
    mean = pairs.of_surrogate(g[x][..., None], g[y][..., None]).mean()
    assert mean == pytest.approx(np.average(g[p > 0], weights=s[p > 0]), abs=1e-3)
    assert not pairs.unseen(g[y][..., None]).any()
    np.testing.assert_array_equal(pairs.dead, p[y] == 0)


def test_everywhere_the_mass_of_the_dead_state_is_missing():
    """Three states: the mean of a is 1, and the ratio of the masses 2."""
    pairs, _, _ = enumerated(*map(np.asarray, CHAINS["three states, the dead one apart"]), None)
    assert np.exp(-pairs.shift) * pairs.ratio()[0] == pytest.approx(1.0)


def test_two_estimates_of_the_mass_in_a_region():
    """They agree for independent proposals: Bennett's is of what both have in the region."""
    p, s, kernel = (
        np.asarray(part, float) for part in CHAINS["three states, independent proposals"]
    )
    for inside in (p > 0, np.array([True, False, False])):
        pairs, _, _ = enumerated(p, s, kernel, inside)
        assert pairs.mass_gap() == pytest.approx(0.0, abs=1e-3)
