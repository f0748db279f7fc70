"""A run on disk: a Zarr store that is written while sampling, and continued from.

A process (:mod:`kmc.mcmc.base`) is deterministic, given its seed, its start points and the values that it is told. So
the *history*, every true evaluation in order, is the truth, as the log of a database is. To resume is to run again, with
an evaluator that answers from the history while it lasts (:mod:`kmc.run.store.replay`). A *snapshot* of the processes
spares most of that, and nothing depends on when it was taken.

::

    run.zarr/
      zarr.json        attributes: what was asked for, and the last commit (kmc.run.store.commit)
      history/         point (n, d), value (n,) and the variables that the log-density returned beside it
      draws/           one array (draw, chain, ...) for each column of a trace
      warmup/0/ ...    the same of the warm-up of each replica
      variables/       the draws as the user knows them, of a model with names; warmup_variables/0/ ... likewise
      snapshots/       pickled bytes: the processes and their generators
      pickles/         pickled bytes: the model, if it can be pickled, and the sampler's options

Arrays only grow. A commit replaces ``zarr.json`` at the root, in one step, after all that it counts was written; what
lies beyond the counts is ignored, and overwritten when the run goes on.
"""
