"""The surrogate of an expensive log-density: a parametric trend plus an expansion in kernel sections.

A map of the modules:

- The fit: fit (its steps), fit_options, fit_task (the data), expansion_search, repair.
- Which values count, and how much: depth, noise, necks, slopes (known gradients).
- Coordinates: whitening, transport (funnels), tails, walls, metric, in_coordinates.
- The trend: trend, wide_trend (many dimensions), low_rank.
- The expansion: expansion (kernel sections), or terms, with term_search, term_pursuit, term_groups, term_regression and
  scale_group.
- The result: surrogate, density (frozen); at one point in jitted loops: jit_state, terms_jit_state, wall_jit_state.
"""

from kmc.surrogates.density import Component, Density
from kmc.surrogates.fit import fit_surrogate
from kmc.surrogates.fit_options import FitOptions
from kmc.surrogates.fit_task import values_needed
from kmc.surrogates.surrogate import Surrogate

__all__ = ["Component", "Density", "FitOptions", "Surrogate", "fit_surrogate", "values_needed"]
