"""The default sampler's learning: rounds of a fit, chains on the surrogate, and a batch of evaluations."""
