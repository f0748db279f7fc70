"""Coordinates in which a log-density is close to a Gaussian's, learned from its evaluations.

- whitening: a shift and a linear map.
- transport: the protocol of the others, and funnels; tails: heavy tails; bends: bent ridges.
- walls: where the density is zero.
"""
