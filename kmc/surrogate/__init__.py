"""The surrogate of an expensive log-density: a Gaussian-process regression of its values.

A map of the modules:

- The regression: regression (fit, predictions and the choice of features for hierarchies),
  covariance (its kernels), nystrom (many values), mean.
- What is known of a model beside its values: known.
- As a density that chains can sample: process (a fit in given or learned coordinates), mass (which
  values count, and no spurious mass).
- Coordinates: the folder coordinates. A simulator's outputs in place of the log-density: the folder
  emulator.
- The result: density (known in coordinates, and frozen); at one point in jitted loops: jit_state.
"""
