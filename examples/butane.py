"""Metastable states of butane, from a trajectory
==============================================

Molecular dynamics of n-butane with four united atoms (Jorgensen's torsion of 1984, harmonic bonds
and angles), in a bath at 300 K. kmc is given the four atoms' dihedral angle, as a point on the
circle, every 0.4 ps. It finds its slow modes, their time scales and three metastable sets: trans,
and gauche to either side. In this model the angle has density exp(-U(φ) / kT), so that the
populations are known. ``examples/alanine_dipeptide.py`` does the same for a molecule in solvent, by
OpenMM.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from numba import njit

import kmc

# kcal/mol, Å, radians, g/mol; with these, time is in units of 48.89 fs.
KT, MASS, UNIT = 0.0019872 * 300.0, 15.0, 0.04889  # the last: one unit of time in ps
BOND, ANGLE, TORSION = (100.0, 1.53), (60.0, np.radians(112.0)), (1.411, -0.271, 3.145)
STEP, FRICTION, FRAME = 0.004 / UNIT, 5.0 * UNIT, 100  # 4 fs, 5 per ps, a frame of 0.4 ps


def torsion_energy(phi):
    """U(φ) in kcal/mol; φ = π is trans."""
    first, second, third = TORSION
    return 0.5 * (
        first * (1 + np.cos(phi)) + second * (1 - np.cos(2 * phi)) + third * (1 + np.cos(3 * phi))
    )


@njit(cache=True)
def forces(x):
    """The forces on the four atoms, (4, 3), and the dihedral angle."""
    f, b = np.zeros((4, 3)), x[1:] - x[:-1]
    length = np.sqrt(np.sum(b * b, axis=1))
    for i in range(3):
        pull = 2 * BOND[0] * (length[i] - BOND[1]) * b[i] / length[i]
        f[i] += pull
        f[i + 1] -= pull
    for i in range(2):  # the angle at atom i + 1
        cosine = -(b[i] @ b[i + 1]) / (length[i] * length[i + 1])
        slope = 2 * ANGLE[0] * (np.arccos(cosine) - ANGLE[1]) / np.sqrt(1 - cosine**2)
        left = slope * (b[i + 1] / length[i + 1] + cosine * b[i] / length[i]) / length[i]
        right = -slope * (b[i] / length[i] + cosine * b[i + 1] / length[i + 1]) / length[i + 1]
        f[i] += left
        f[i + 2] += right
        f[i + 1] -= left + right
    m, n = np.cross(b[0], b[1]), np.cross(b[1], b[2])
    phi = np.arctan2(length[1] * (b[0] @ n), m @ n)
    torque = 0.5 * (
        TORSION[0] * np.sin(phi)
        - 2 * TORSION[1] * np.sin(2 * phi)
        + 3 * TORSION[2] * np.sin(3 * phi)
    )
    first, last = -torque * length[1] / (m @ m) * m, torque * length[1] / (n @ n) * n
    along = (b[0] @ b[1]) / length[1] ** 2 * first - (b[2] @ b[1]) / length[1] ** 2 * last
    f[0] += first
    f[3] += last
    f[1] += -first - along
    f[2] += -last + along
    return f, phi


@njit(cache=True)
def dynamics(frames, rng):
    """The dihedral angle at each frame, by Langevin dynamics (Leimkuhler and Matthews' splitting
    BAOAB).
    """
    x = np.array([[0.0, 1.4, 0.6], [0.0, 0.0, 0.0], [1.53, 0.0, 0.0], [2.1, -1.4, -0.1]])
    v, (f, phi), angles = np.zeros((4, 3)), forces(x), np.empty(frames)
    keep = np.exp(-FRICTION * STEP)
    for k in range(frames * FRAME):
        v += 0.5 * STEP * f / MASS
        x += 0.5 * STEP * v
        v = keep * v + np.sqrt((1 - keep**2) * KT / MASS) * rng.standard_normal((4, 3))
        x += 0.5 * STEP * v
        f, phi = forces(x)
        v += 0.5 * STEP * f / MASS
        angles[k // FRAME] = phi
    return angles


def main(frames: int = 20_000):
    """Simulate eight nanoseconds and analyze them."""
    phi = dynamics(frames, np.random.default_rng(1))
    circle = np.column_stack([np.cos(phi), np.sin(phi)])
    operator = kmc.spectral.TransitionOperator(
        5, n_components=2, bandwidth=0.5, n_basis=40, random_state=0
    ).fit(circle)
    scales, errors = operator.timescales_ * 0.4, operator.timescale_errors_ * 0.4
    print("time scales:", *(f"{t:.0f} ± {e:.0f} ps" for t, e in zip(scales, errors, strict=True)))
    sets = operator.memberships(circle, 3).argmax(axis=1)
    grid = np.linspace(-np.pi, np.pi, 2001)[:-1]
    density = np.exp(-torsion_energy(grid) / KT)
    member = operator.memberships(np.column_stack([np.cos(grid), np.sin(grid)]), 3).argmax(axis=1)
    for k in range(3):
        share = density[member == k].sum() / density.sum()
        print(f"set {k + 1}: {np.mean(sets == k):6.1%} of the frames; expected {share:.1%}")
    _, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained", width_ratios=[2, 1])
    time = 0.4 * np.arange(frames)
    axes[0].scatter(time, np.degrees(phi) % 360, c=sets, s=1, cmap="viridis")
    axes[0].set(xlabel="time (ps)", ylabel="dihedral angle (degrees)")
    found = kmc.spectral.implied_timescales(circle, [1, 2, 5, 10, 20], 2, estimator=operator)
    kmc.plot_implied_timescales(found, unit=0.4, unit_name="ps", ax=axes[1])
    return phi, operator


if __name__ == "__main__":
    main()
    plt.show()
