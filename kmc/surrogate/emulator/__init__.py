"""A surrogate that knows the prior and the likelihood, and learns the outputs of the simulator between them.

- What is known: structure (in plain arrays), observations (the likelihood of one number).
- The fit: components (of the outputs), emulated (regressed, as a density).
- The result, at one point in jitted loops: jit_state.
"""
