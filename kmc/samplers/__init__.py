"""Samplers: options, and states that request evaluations but never call the target.

A map of the modules:

- What a sampler is: base, ask_tell (a loop of the user's own), metropolis (the rule that accepts or
  rejects), walkers (the states of all chains, and chains that nothing couples any more), moves
  (built-in ones and a user's own).
- Inner chains on a surrogate: inner_chains, leapfrog, tuning.
- Adaptive samplers: adapting (their common state), adaptive_metropolis, kameleon,
  adaptive_langevin, delayed_acceptance. The baseline: random_walk.
- With a score estimator: score_hmc, score_fitter, score_field.
- At several temperatures: parallel_tempering.

The default sampler is :mod:`kmc.kernel_hmc`.
"""
