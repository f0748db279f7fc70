from kmc.diagnostics.control_functionals import ControlFunctional as ControlFunctional
from kmc.diagnostics.control_functionals import control_functional as control_functional
from kmc.diagnostics.langevin import langevin_gap as langevin_gap
from kmc.diagnostics.modes import slow_modes as slow_modes
from kmc.diagnostics.modes import spectral_gap as spectral_gap
from kmc.diagnostics.nested import nested_rhat as nested_rhat
from kmc.diagnostics.stein import SteinDiscrepancy as SteinDiscrepancy
from kmc.diagnostics.stein import kernel_stein_discrepancy as kernel_stein_discrepancy
