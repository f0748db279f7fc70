"""A run on disk: a Zarr store that is written while sampling, and continued from.

A process (:mod:`kmc.mcmc.base`) is deterministic, given its seed, its start points and the values that it is told. So
the *history*, every true evaluation in order, is the truth, as the log of a database is. To resume is to run again and
to take values from the history while it lasts. A *snapshot* of the processes spares most of that, and nothing depends
on when it was taken.

::

    run.zarr/
      zarr.json        attributes: what was asked for, and the last commit (kmc.run.store.commit)
      history/         point (n, d), value (n,) and the variables that the log-density returned beside it
      draws/           groups of arrays (draw, chain, ...): trace, one for each column of a trace; variables, what the
                       user calls them; blobs
      warmup/0/ ...    the same of the warm-up of each replica
      snapshots/       pickled bytes: the processes and their generators
      pickles/         pickled bytes: the model, if it can be pickled, and the sampler's options

Arrays only grow. A commit replaces ``zarr.json`` at the root, in one step, after all that it counts was written; what
lies beyond the counts is ignored, and overwritten when the run goes on.
"""
