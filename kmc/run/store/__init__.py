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
      warmup/0/ ...    the same of the warm-up of each independent run
      snapshots/       the processes and their generators, as plain data (kmc.run.store.plain)
      given/           the sampler's options, as plain data, and the model, pickled if it can be
      commit.json      a copy of the root's zarr.json
      data.npz, evaluations.npz   data that go with the draws, evaluations that the run was given: if there are any
      lock             locked while a process writes to the store

Pickles run code when they are loaded. Those of a store are the model and what is in the sampler's options and is not of
kmc, such as an estimator of the user's; they are loaded with ``trust=True`` only.

Arrays only grow. A commit replaces ``zarr.json`` at the root, in one step, after all that it counts was written; what
lies beyond the counts is ignored, and overwritten when the run is resumed. It holds a checksum for each chunk of each
array, and for other files, and one of itself: bytes that change are noticed when they are read, and the error names the
file. If it is damaged itself, its copy is read, which is at most one commit older.

One process writes to a store at a time; the lock (kmc.run.store.files) ends with the process, also by kill -9. On a
network file system that holds between machines only if the server knows POSIX locks, as NFS 4 does; where there are no
locks at all, a warning says so.

On disk, an evaluation takes 8 (d + 1) bytes, a draw 8 d + 48 of each chain, and there are two snapshots, of which each
has what the sampler holds in memory: for kernel HMC about the history, its states and the surrogate. In memory, a
recorder holds the evaluations since the last commit.

A commit survives the death of the process. After a power failure the last seconds may be missing: that is then reported
as damage, because no file is forced to the disk.
"""
