"""The slow mode of alanine dipeptide
==================================

``python examples/alanine_dipeptide.py`` finds it without prior knowledge.

Needs OpenMM and Matplotlib: ``pip install "kernelmc[md,plots]"``. It simulates eight nanoseconds in
implicit solvent at 450 K, divided among the cores, at one to two nanoseconds a minute for each.
Then kmc looks for the slow modes twice: in the dihedral angles φ and ψ, which an expert would
choose, and in the 45 distances between the ten heavy atoms, which need no choice. Both find the
rotation of φ. (The mode does not change at 180 degrees, but the sign of φ does: hence the second
number that is printed.) Two figures: Ramachandran plots colored by the slow mode, and time scales
against the lagtime. The first, after 1.5 nanoseconds in 100 seconds of two cores:

.. image:: /pictures/alanine_dipeptide.png
   :alt: φ against ψ, twice, colored by the slow modes: the few points with φ > 0 stand out
"""

# sphinx_gallery_thumbnail_path = 'pictures/alanine_dipeptide.png'

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path

import numpy as np

from kmc.plots import plot_implied_timescales
from kmc.spectral import TransitionOperator, features, implied_timescales

FRAME = 1.0  # picoseconds between frames
LAGTIME = 5  # frames
TEMPERATURE = 450.0

# Heavy atoms: residue, name, element, and the three atoms by which each is placed, with bond, angle
# and dihedral. Two dihedrals depend on φ, the rotation about the bond from N to CA.
ATOMS = (
    ("ACE", "CH3", "C", None),
    ("ACE", "C", "C", None),
    ("ACE", "O", "O", None),
    ("ALA", "N", "N", ((2, 0, 1), 1.335, 116, 180)),
    ("ALA", "CA", "C", ((0, 1, 3), 1.449, 122, 180)),
    ("ALA", "CB", "C", ((1, 3, 4), 1.526, 110, "φ - 120")),
    ("ALA", "C", "C", ((1, 3, 4), 1.522, 110, "φ")),
    ("ALA", "O", "O", ((3, 4, 6), 1.230, 120, -30)),
    ("NME", "N", "N", ((3, 4, 6), 1.335, 116, 150)),
    ("NME", "C", "C", ((4, 6, 8), 1.449, 122, 180)),
)
PHI, PSI = (1, 3, 4, 6), (3, 4, 6, 8)


def molecule(phi: float):
    """Topology and positions in nanometers, without hydrogens, with this angle φ in degrees."""
    from openmm import app

    x = np.zeros((len(ATOMS), 3))
    x[1], x[2] = [1.51, 0.0, 0.0], [2.125, 1.065, 0.0]
    for k, (_, _, _, place) in enumerate(ATOMS):
        if place is not None:
            (a, b, c), bond, angle, dihedral = place
            turn = {"φ": phi, "φ - 120": phi - 120}.get(dihedral, dihedral)
            x[k] = _placed(x[a], x[b], x[c], bond, np.radians(angle), np.radians(turn))
    topology = app.Topology()
    chain, residue = topology.addChain(), None
    for name, atom, element, _ in ATOMS:
        if residue is None or residue.name != name:
            residue = topology.addResidue(name, chain)
        topology.addAtom(atom, app.Element.getBySymbol(element), residue)
    topology.createStandardBonds()
    return topology, 0.1 * x


def simulate(seed: int, frames: int) -> np.ndarray:
    """Heavy atoms along a trajectory, (frames, 10, 3) in nanometers; starts alternate between the
    sides of φ = 0.
    """
    import openmm
    from openmm import app, unit

    topology, x = molecule(-80.0 if seed % 2 else 60.0)
    field = app.ForceField("amber14-all.xml", "implicit/obc2.xml")
    model = app.Modeller(topology, x * unit.nanometer)
    model.addHydrogens(field)
    system = field.createSystem(model.topology, constraints=app.HBonds, hydrogenMass=3 * unit.amu)
    step = 0.004
    integrator = openmm.LangevinMiddleIntegrator(TEMPERATURE, 1.0, step)  # kelvin, 1/ps, ps
    integrator.setRandomNumberSeed(seed)
    platform = openmm.Platform.getPlatformByName("CPU")
    run = app.Simulation(model.topology, system, integrator, platform, {"Threads": "1"})
    run.context.setPositions(model.positions)
    run.minimizeEnergy()
    run.context.setVelocitiesToTemperature(TEMPERATURE, seed)
    run.step(round(10.0 / step))
    heavy = [atom.index for atom in model.topology.atoms() if atom.element.symbol != "H"]
    found = np.empty((frames, len(heavy), 3))
    for frame in found:
        run.step(round(FRAME / step))
        frame[:] = (
            run.context.getState(getPositions=True).getPositions(asNumpy=True)[heavy]
            / unit.nanometer
        )
    return found


def _placed(a, b, c, bond, angle, dihedral):
    """The position of an atom that is bonded to c."""
    along = (c - b) / np.linalg.norm(c - b)
    normal = np.cross(b - a, along)
    normal /= np.linalg.norm(normal)
    across = np.cos(dihedral) * np.cross(normal, along) + np.sin(dihedral) * normal
    return c + bond * (np.sin(angle) * across - np.cos(angle) * along)


def pictures(found: dict[str, tuple], angles: np.ndarray, folder: Path) -> None:
    """Ramachandran plots colored by the slow mode, and time scales against the lagtime."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, len(found), figsize=(4.4 * len(found), 4), layout="constrained", sharey=True
    )
    limits = np.quantile([mode for mode, _ in found.values()], [0.001, 0.999])
    for ax, (name, (mode, _)) in zip(axes, found.items()):
        points = ax.scatter(*np.degrees(angles.T), c=mode, s=2, cmap="coolwarm", linewidths=0)
        points.set_clim(*limits)
        ax.set(
            title=f"slow mode from {name}", xlabel="φ (degrees)", xlim=(-180, 180), ylim=(-180, 180)
        )
    axes[0].set_ylabel("ψ (degrees)")
    figure.colorbar(points, ax=axes, label="slow mode")
    figure.savefig(folder / "alanine_ramachandran.png", dpi=150)
    figure, axes = plt.subplots(
        1, len(found), figsize=(4.4 * len(found), 3.5), layout="constrained", sharey=True
    )
    for ax, (name, (_, scales)) in zip(axes, found.items()):
        plot_implied_timescales(scales, unit=FRAME, unit_name="ps", ax=ax)
        ax.set_title(f"from {name}")
    figure.savefig(folder / "alanine_timescales.png", dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nanoseconds", type=float, default=8.0, help="in all")
    parser.add_argument(
        "--trajectories", type=int, default=os.cpu_count() or 1, help="each in a process"
    )
    parser.add_argument(
        "--save", type=Path, default=Path("alanine.npy"), help="positions; read if the file exists"
    )
    parser.add_argument("--output", type=Path, default=Path("."), help="folder for the figures")
    options = parser.parse_args()
    if options.save.exists():
        x = np.load(options.save)
        print(f"Read {options.save}: {len(x)} trajectories of {x.shape[1] * FRAME / 1000:.1f} ns")
    else:
        begun, frames = (
            time.perf_counter(),
            round(1000 * options.nanoseconds / FRAME / options.trajectories),
        )
        with ProcessPoolExecutor(options.trajectories) as pool:
            x = np.stack(
                list(pool.map(simulate, range(1, options.trajectories + 1), repeat(frames)))
            )
        np.save(options.save, x)
        print(
            f"{len(x)} trajectories of {frames * FRAME / 1000:.1f} ns in "
            f"{time.perf_counter() - begun:.0f} s"
        )

    turns = features.dihedrals(list(x), [PHI, PSI])
    angles = np.concatenate([np.arctan2(part[:, 2:], part[:, :2]) for part in turns])
    phi = np.degrees(angles[:, 0])
    turned = (phi > 0) & (phi < 140)  # beyond 140 it rotates on to -180
    print(
        f"φ > 0 in {np.mean(phi > 0):.1%} of the frames, between 0 and 140 degrees in "
        f"{np.mean(turned):.1%}"
    )
    found = {}
    for name, data in (("dihedral angles", turns), ("distances", features.distances(list(x)))):
        begun = time.perf_counter()
        operator = TransitionOperator(lagtime=LAGTIME, n_components=3, random_state=0).fit(data)
        mode = np.concatenate(operator.transform(data))[:, 0]
        mode *= np.sign(mode @ turned)  # the sign of a mode is arbitrary
        matches = [np.corrcoef(mode, event)[0, 1] for event in (phi > 0, turned)]
        scales = implied_timescales(data, [1, 2, 5, 10, 20], 3, estimator=operator)
        found[name] = mode, scales
        print(
            f"{name}: correlation with the sign of φ {matches[0]:.3f}, with 0 < φ < 140 "
            f"{matches[1]:.3f}; time scales "
            f"{', '.join(f'{FRAME * t:.0f}' for t in operator.timescales_)} ps, "
            f"{time.perf_counter() - begun:.0f} s"
        )
    pictures(found, angles, options.output)
    print(
        f"Pictures: {options.output / 'alanine_ramachandran.png'}, "
        f"{options.output / 'alanine_timescales.png'}"
    )


if __name__ == "__main__":
    main()
