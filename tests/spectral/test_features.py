"""Features of molecules: the same for a molecule that moved, from arrays and from objects of MDTraj
and MDAnalysis.
"""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from kmc.spectral import features

FRAMES = np.random.default_rng(0).standard_normal((5, 6, 3))
PAIRS = [(0, 5), (2, 3)]
FOURS = [(0, 1, 2, 3), (5, 3, 2, 1)]


def both(trajectory):
    return features.distances(trajectory, PAIRS), features.dihedrals(trajectory, FOURS)


def test_they_are_what_they_say():
    distances, turns = both(FRAMES)
    expected = np.linalg.norm(FRAMES[:, [5, 3]] - FRAMES[:, [0, 2]], axis=2)
    np.testing.assert_allclose(distances, expected)
    assert turns.shape == (5, 4)
    np.testing.assert_allclose(turns[:, :2] ** 2 + turns[:, 2:] ** 2, 1.0)
    assert features.distances(FRAMES).shape == (5, 15)


def test_they_do_not_depend_on_place_and_orientation():
    turned = FRAMES @ Rotation.from_euler("xyz", [0.3, 1.0, -0.5]).as_matrix().T + [3.0, -1.0, 2.0]
    for one, other in zip(both(FRAMES), both(turned)):
        np.testing.assert_allclose(one, other, atol=1e-12)
    mirrored = features.dihedrals(FRAMES * [1.0, 1.0, -1.0], FOURS)
    np.testing.assert_allclose(mirrored, both(FRAMES)[1] * [1, 1, -1, -1], atol=1e-12)


def test_a_list_is_several_trajectories():
    found = features.distances([FRAMES[:2], FRAMES[2:]], PAIRS)
    np.testing.assert_array_equal(np.concatenate(found), features.distances(FRAMES, PAIRS))
    np.testing.assert_array_equal(
        features.distances(FRAMES.tolist(), PAIRS), features.distances(FRAMES, PAIRS)
    )


def test_mdtraj():
    mdtraj = pytest.importorskip("mdtraj")
    topology = mdtraj.Topology()
    residue = topology.add_residue("MOL", topology.add_chain())
    for _ in range(6):
        topology.add_atom("C", mdtraj.element.carbon, residue)
    trajectory = mdtraj.Trajectory(FRAMES, topology)
    distances, turns = both(trajectory)
    np.testing.assert_allclose(distances, mdtraj.compute_distances(trajectory, PAIRS), atol=1e-5)
    angles = mdtraj.compute_dihedrals(trajectory, FOURS)
    np.testing.assert_allclose(turns, np.hstack([np.cos(angles), np.sin(angles)]), atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_mdanalysis():
    mda = pytest.importorskip("MDAnalysis")
    universe = mda.Universe.empty(6, trajectory=True).load_new(FRAMES)
    for found, expected in zip(both(universe), both(FRAMES)):
        np.testing.assert_allclose(found, expected, atol=1e-5)
    some = features.distances(universe.atoms[[5, 3, 0]])
    np.testing.assert_allclose(some, features.distances(FRAMES[:, [5, 3, 0]]), atol=1e-5)


def test_errors_name_the_argument():
    with pytest.raises(ValueError, match=r"trajectory is a ndarray of shape \(6, 3\)"):
        features.distances(FRAMES[0])
    with pytest.raises(ValueError, match=r"pairs has numbers from 0 to 6: expected 0 to 5"):
        features.distances(FRAMES, [(0, 6)])
    with pytest.raises(ValueError, match=r"atoms has shape \(1, 3\) and type int64"):
        features.dihedrals(FRAMES, [(0, 1, 2)])
    with pytest.raises(ValueError, match="trajectory has coordinates that are NaN"):
        features.distances(np.where(np.arange(3) == 1, np.nan, FRAMES))
    line = np.array([[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [2.0, 1.0, 0.0]]])
    with pytest.raises(
        ValueError, match=r"atoms\[0\]: three of the atoms are on a line in frame 0"
    ):
        features.dihedrals(line, [(0, 1, 2, 3)])
