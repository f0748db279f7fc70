"""Distances and dihedral angles of atoms: features invariant to a molecule's place and orientation.

Trajectories are arrays of coordinates, or objects of MDTraj or MDAnalysis. These packages are not
imported here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kmc.arrays import as_array, to_numpy


def distances(trajectory: Any, pairs: Any = None) -> Any:
    """Return the distances between pairs of atoms.

    Parameters
    ----------
    trajectory : array_like (n, atoms, 3), mdtraj.Trajectory, MDAnalysis Universe or AtomGroup, or
    list of these
        One trajectory, or a list of several. For MDAnalysis, all frames are read from the file.
    pairs : array_like of int, shape (m, 2), optional
        Numbers of atoms, from zero within the trajectory or AtomGroup. All pairs by default.

    Returns
    -------
    ndarray, shape (n, m), or list of these
        In the unit of the coordinates: nanometers for MDTraj, angstroms for MDAnalysis.

    Raises
    ------
    ValueError, TypeError
        The trajectory has another type or shape, coordinates are not finite, or ``pairs`` are not
        pairs of its atoms.

    Notes
    -----
    Periodic images are not considered: make molecules whole first, by ``make_molecules_whole`` of
    MDTraj or ``unwrap`` of MDAnalysis.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.spectral import features
    >>> # one frame of three atoms
    >>> frames = np.array([[[0.0, 0.0, 0.0], [3.0, 4.0, 0.0], [3.0, 0.0, 0.0]]])
    >>> features.distances(frames)
    array([[5., 3., 4.]])
    >>> features.distances(frames, [(1, 2)])
    array([[4.]])
    """

    def between(x):
        first, second = x
        return np.linalg.norm(second - first, axis=-1)

    return _featurized(trajectory, "pairs", pairs, 2, between)


def dihedrals(trajectory: Any, atoms: Any) -> Any:
    """Return the cosines and sines of dihedral angles.

    Both are continuous where the angle itself jumps, from 180 to -180 degrees.

    Parameters
    ----------
    trajectory : array_like (n, atoms, 3), mdtraj.Trajectory, MDAnalysis Universe or AtomGroup, or
    list of these
        As for :func:`distances`.
    atoms : array_like of int, shape (m, 4)
        Four atoms for each angle, such as ``mdtraj.compute_phi(trajectory)[0]``, or
        ``[residue.phi_selection().ix for residue in universe.residues[1:]]`` for a protein in
        MDAnalysis.

    Returns
    -------
    ndarray, shape (n, 2 m), or list of these
        The m cosines, then the m sines; the angles, with the sign of IUPAC, are ``np.arctan2(sines,
        cosines)``.

    Raises
    ------
    ValueError, TypeError
        The trajectory has another type or shape, coordinates are not finite, or ``atoms`` are not
        fours of its atoms.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.spectral import features
    >>> frames = np.array([[[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 1.0]]])
    >>> features.dihedrals(frames, [(0, 1, 2, 3)]).round(3)  # 90 degrees
    array([[0., 1.]])
    """

    def turned(x):
        a, b, c, d = x
        axis = c - b
        one, two = np.cross(b - a, axis), np.cross(axis, d - c)
        cosine = np.sum(one * two, axis=-1)
        sine = np.sum(np.cross(one, two) * axis, axis=-1) / np.linalg.norm(axis, axis=-1)
        size = np.hypot(cosine, sine)
        if not np.all(size > 0):
            frame, number = np.argwhere(~(size > 0))[0]
            raise ValueError(
                f"atoms[{number}]: three of the atoms are on a line in frame {frame}, and have no "
                f"angle"
            )
        return np.hstack([cosine / size, sine / size])

    return _featurized(trajectory, "atoms", atoms, 4, turned)


def _featurized(
    trajectory: Any, name: str, atoms: Any, size: int, feature: Callable[[list[np.ndarray]], Any]
) -> Any:
    """Return a feature of atoms' positions, (n, m, 3) each, in a trajectory or each of a list."""
    if isinstance(trajectory, (list, tuple)) and len(trajectory) and not _is_frame(trajectory[0]):
        return [_featurized(one, name, atoms, size, feature) for one in trajectory]
    count = _number_of_atoms(trajectory)
    numbers = np.column_stack(np.triu_indices(count, 1)) if atoms is None else np.asarray(atoms)
    if numbers.ndim != 2 or numbers.shape[1] != size or numbers.dtype.kind not in "iu":
        raise ValueError(
            f"{name} has shape {numbers.shape} and type {numbers.dtype}: expected whole numbers, "
            f"(m, {size})"
        )
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < count:
        raise ValueError(
            f"{name} has numbers from {numbers.min()} to {numbers.max()}: expected 0 to {count - 1}"
        )
    used, within = np.unique(numbers, return_inverse=True)
    x = as_array("trajectory", _positions(trajectory, used))
    if not np.all(np.isfinite(x)):
        raise ValueError(
            "trajectory has coordinates that are NaN or infinite: expected finite numbers"
        )
    return feature([x[:, column] for column in within.reshape(numbers.shape).T])


def _is_frame(one: Any) -> bool:
    """Whether an item of a list is a frame, (atoms, 3), so that the list is one trajectory."""
    return not (hasattr(one, "xyz") or hasattr(one, "atoms")) and np.ndim(one) == 2


def _number_of_atoms(trajectory: Any) -> int:
    """Return the number of atoms in an array, a trajectory of MDTraj, or atoms of MDAnalysis."""
    if hasattr(trajectory, "xyz"):
        return trajectory.xyz.shape[1]
    if hasattr(trajectory, "universe"):
        return len(trajectory.atoms)
    shape = np.shape(trajectory)
    if len(shape) != 3 or shape[2] != 3:
        raise ValueError(
            f"trajectory is a {type(trajectory).__name__} of shape {shape}: expected coordinates "
            "(n, atoms, 3), or an object of MDTraj or MDAnalysis"
        )
    return shape[1]


def _positions(trajectory: Any, atoms: np.ndarray) -> Any:
    """(n, m, 3) coordinates of some atoms in all frames."""
    if hasattr(trajectory, "xyz"):
        return trajectory.xyz[:, atoms]
    if hasattr(trajectory, "universe"):
        group = trajectory.atoms[atoms]
        return np.array([group.positions for _ in trajectory.universe.trajectory])
    return to_numpy(trajectory)[:, atoms]
