"""The default sampler's learning: rounds of a fit, surrogate chains, and a batch of evaluations."""
