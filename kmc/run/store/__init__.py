"""A run on disk: a Zarr store that is written while sampling, and from which the run can be resumed.

A sampler (:mod:`kmc.mcmc.base`) is deterministic, given its seed, its start points and the values that it receives. So
the *history*, every true evaluation in order, determines the run, like the log of a database. To resume is to run again
and to take values from the history as long as there are any. A *snapshot* of the samplers avoids most of that work;
results do not depend on when it was taken.

::

    run.zarr/
      zarr.json        attributes: the run's settings, and the last commit (kmc.run.store.commit)
      history/         point (n, d), value (n,) and the blobs that the log-density returned
      draws/           groups of arrays (draw, chain, ...): trace, one for each column of a trace; variables, by the
                       user's names; blobs
      warmup/0/ ...    the same for the warm-up of each independent run
      snapshots/       samplers and their random generators, as plain data (kmc.run.store.plain)
      given/           the sampler's options, as plain data, and the model, pickled if possible
      commit.json      a copy of the root's zarr.json
      data.npz, evaluations.npz   data stored with the draws, evaluations given as history: if there are any
      lock             locked while a process writes to the store

Loading a pickle runs code. The pickles of a store are the model, and those objects in the sampler's options that are
not from kmc, such as an estimator of the user's; they are loaded with ``trust=True`` only.

Arrays only grow. A commit replaces ``zarr.json`` at the root, in one step, after everything that it counts was written;
rows beyond the counts are ignored, and overwritten when the run is resumed. It holds a checksum for each chunk of each
array, for other files, and for itself: changed bytes are detected when they are read, and the error names the file. If
``zarr.json`` itself is damaged, its copy is read, which is at most one commit older.

One process writes to a store at a time; the lock (kmc.run.store.files) ends with the process, also after kill -9. On a
network file system it works between machines only if the server supports POSIX locks, as NFS 4 does; if there are no
locks at all, there is a warning.

On disk, an evaluation takes 8 (d + 1) bytes, a draw 8 d + 48 for each chain. There are two snapshots, each with what
the sampler holds in memory: for kernel HMC about the history, its states and the surrogate. In memory, a recorder holds
the evaluations since the last commit.

A commit survives the death of the process. After a power failure the last seconds may be missing, which is reported as
damage, because files are not synced to the disk.
"""
