"""Coordinates in which a log-density is close to a Gaussian's, learned from its evaluations.

- whitening: a shift and a linear map.
- transport: the protocol of the others. noncentered: declared hierarchies. funnels, tails (heavy
  ones) and bends are learned, and search tells which of them are worth a fit.
- walls: where the density is zero.
"""
