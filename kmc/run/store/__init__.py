"""A run on disk: a Zarr store that is written while sampling and from which the run can be resumed.

A sampler (:mod:`kmc.samplers.base`) is deterministic, given its seed, its start points and the
values that it receives. So the *history*, every true evaluation in order, determines the run, like
the log of a database. To resume is to run again and to take values from the history as long as
there are any. A *snapshot* of the samplers avoids most of that work; results do not depend on when
it was taken.

::

    run.zarr/
      zarr.json        attributes: the run's settings, and the last commit (kmc.run.store.commit)
      commit.json      a copy of it
      history/         point (n, d), value (n,) and the blobs that the log-density returned
      draws/           groups of arrays (draw, chain, ...): trace, one for each column of a trace;
                       variables, by the user's names; blobs
      warmup/0/ ...    the same for the warm-up of each independent run
      sampler          the sampler's options, as plain data (kmc.run.store.plain)
      snapshot-0       samplers and their random generators, as signed plain data; its successor is
                       snapshot-1
      surrogate        the frozen surrogates, as plain data
      data, evaluations, ahead-0    data stored with the draws, given evaluations, those ahead of
                                    the last whole sweep
      model.pickle, sampler.pickle  the user's own objects
      lock             locked while a process writes to the store

A store may come from anybody. Loading a pickle runs code: those of the user's own objects are
loaded with ``trust=True`` only, by :func:`kmc.pickles.load_pickle`. Nothing else in a store is
executed, followed out of its folder, or trusted about sizes: paths are made of this package's names
(:class:`kmc.run.store.files.Folder`), the records in ``zarr.json`` are checked before they are used
(:func:`kmc.run.store.commit.read_commit`), and a snapshot is used if this user has signed it
(:mod:`kmc.run.store.parts`). Somebody who changes files while a process reads them is not guarded
against.

Arrays only grow. A commit replaces ``zarr.json`` at the root, in one step, after everything that it
counts was written; rows beyond the counts are ignored, and overwritten when the run is resumed. It
holds a checksum for each chunk of each array, for other files, and for itself: changed bytes are
detected when they are read, and the error names the file. If ``zarr.json`` itself is damaged, its
copy is read, which is at most one commit older.

One process writes to a store at a time; the lock (:class:`kmc.run.store.files.Lock`) ends with the
process, also after kill -9. On a network file system it works between machines only if the server
supports POSIX locks, as NFS 4 does; if there are no locks at all, there is a warning.

On disk, an evaluation takes 8 (d + 1) bytes, a draw 8 d + 48 for each chain. A snapshot has what
the sampler holds in memory: for kernel HMC about the history, its states and the surrogate. In
memory, a recorder holds the evaluations since the last commit.

A commit survives the death of the process. After a power failure the last seconds may be missing,
which is reported as damage, because files are not synced to the disk.
"""
