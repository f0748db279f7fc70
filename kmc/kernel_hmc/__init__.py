"""The default sampler: rounds of a fit, surrogate chains and a batch of evaluations, then draws.

A map of the modules:

- sampler: the options. state: the phases of a run. kinds: what kind of surrogate a run has.
- Learning: learning (rounds), batch (candidates, and which of them are evaluated), stopping.
- On the surrogate: surrogate_chains, proposals, modes. Paths and the rule that accepts a proposal
  are those of all samplers: :mod:`kmc.samplers.leapfrog` and :mod:`kmc.samplers.metropolis`.
- user_gradient: what a user's gradient says.
"""
