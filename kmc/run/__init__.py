"""``kmc.sample`` and what a run consists of: arguments, the loop, progress, warnings, results.

A map of the modules:

- Entrances: sample (with iterate), find_start; arguments has the request that they make, history
  takes evaluations made elsewhere.
- The loop: run, independent_run, trace (draws and blobs), budget.
- Chains that do not wait for each other after the freeze: ahead. See also the packages executors
  and store.
- What is shown: progress, display. What is said: evaluation_summary, run_statistics and unvisited
  measure, run_warnings has the table of warnings, and problems those of a run. outcome puts all of
  it together. What is returned: results, with the groups of frozen_surrogates and final_state.
"""
