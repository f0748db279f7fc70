"""The surrogate of an expensive log-density: a Gaussian-process regression of its values.

A map of the modules:

- The regression: regression (fit and predictions), covariance (its kernels), scales (the choice
  of features for hierarchies), nystrom (many values), mean.
- As a density that chains can sample: process (a fit in given or learned coordinates), mass (which values count, and
  no spurious mass), depth, quadratic.
- Coordinates: the folder coordinates.
- The result: density (known in coordinates, and frozen); at one point in jitted loops: jit_state.
"""
