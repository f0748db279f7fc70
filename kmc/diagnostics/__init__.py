"""What a finished chain tells.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from kmc.lazy import lazy

if TYPE_CHECKING:
    from kmc.diagnostics.control_functionals import ControlFunctional, control_functional
    from kmc.diagnostics.langevin import langevin_gap
    from kmc.diagnostics.modes import slow_modes, spectral_gap
    from kmc.diagnostics.stein import SteinDiscrepancy, kernel_stein_discrepancy

_HOMES = {
    "ControlFunctional": "kmc.diagnostics.control_functionals",
    "SteinDiscrepancy": "kmc.diagnostics.stein",
    "control_functional": "kmc.diagnostics.control_functionals",
    "kernel_stein_discrepancy": "kmc.diagnostics.stein",
    "langevin_gap": "kmc.diagnostics.langevin",
    "slow_modes": "kmc.diagnostics.modes",
    "spectral_gap": "kmc.diagnostics.modes",
}

__all__ = [
    "ControlFunctional",
    "SteinDiscrepancy",
    "control_functional",
    "kernel_stein_discrepancy",
    "langevin_gap",
    "slow_modes",
    "spectral_gap",
]


__getattr__, __dir__ = lazy(__name__, _HOMES)
