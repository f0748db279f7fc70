"""How an enzyme closes, from trajectory files
===========================================

Needs MDAnalysis and its test data: ``pip install MDAnalysis MDAnalysisTests``. Two files,
``adk_dims.dcd`` and ``adk_dims2.dcd``, have simulations of adenylate kinase on its way from the
open to the closed form (Beckstein, Denning, Perilla and Woolf 2009), with about a hundred frames
each.

``kmc.spectral.features.distances`` reads the files: a feature for each pair of every tenth Cα atom.
The slowest function of these 231 distances follows the closing, without being told of it: it is
compared with the distance between residues 55 and 169, which is measured in experiments. The
simulations were driven to the closed form: the order of the frames has a meaning, but time scales
have none.

The same works for other file formats, and with MDTraj: ``features.distances(mdtraj.load("run.xtc",
top="run.pdb"))``.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import MDAnalysis
import numpy as np
from MDAnalysisTests.datafiles import DCD, DCD2, PSF

from kmc.spectral import TransitionOperator, features

LABELED = [(54, 168)]  # residues 55 and 169, counted from zero


def main(every: int = 10):
    """Find the slowest function of the distances between every tenth residue."""
    alpha = [MDAnalysis.Universe(PSF, file).select_atoms("name CA") for file in (DCD, DCD2)]
    distances = features.distances([atoms[::every] for atoms in alpha])
    apart = features.distances(alpha, LABELED)
    operator = TransitionOperator(lagtime=1, n_components=1, random_state=0).fit(distances)
    slowest = operator.transform(distances)
    correlation = np.corrcoef(np.concatenate(slowest)[:, 0], np.concatenate(apart)[:, 0])[0, 1]
    print(
        f"{len(alpha)} trajectories of {[len(part) for part in distances]} frames, "
        f"{distances[0].shape[1]} distances"
    )
    print(f"correlation with the distance between residues 55 and 169: {abs(correlation):.2f}")
    _, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
    for one, mode, name in zip(apart, slowest, ("adk_dims.dcd", "adk_dims2.dcd"), strict=True):
        ax.plot(one, color="0.8", zorder=0)
        points = ax.scatter(np.arange(len(one)), one, c=mode, s=14, label=name)
    ax.figure.colorbar(points, label="slowest function")
    ax.set(xlabel="frame", ylabel="distance (Å)")
    return operator


if __name__ == "__main__":
    main()
    plt.show()
