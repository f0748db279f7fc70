"""A surrogate that knows the prior and likelihood, and learns the simulator's outputs between them.

- What is known: structure (priors, data and likelihoods in plain arrays; a cheap simulator).
- The first points: climbs.
- The fit: components (principal ones of the outputs), emulated (their regression, as a density).
- The result, at one point in jitted loops: jit_state.
"""
