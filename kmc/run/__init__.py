"""``kmc.sample`` and what a run consists of: arguments, the loop, progress, warnings, results.

A map of the modules:

- Entrances: sample, iterate, find_start; prepare and arguments check what they are given, given takes
  evaluations made elsewhere.
- The loop: run, independent_run, trace (draws), blobs, budget, recording (the interface of stores).
- Chains that do not wait for each other after the freeze: ahead. See also the packages executors and store.
- What is shown: meter, display. What is said: run_statistics, unvisited, ends,
  run_warnings, warning_codes. What is returned: results, frozen, highest (the best evaluation).
"""
