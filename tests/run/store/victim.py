"""A run in a process of its own, to be killed: python -m tests.run.store.victim STORE SAMPLER."""

import sys
import warnings

import kmc
from tests.run.store.runs import log_density, settings

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print("ready", flush=True)
    kmc.sample(log_density, store=sys.argv[1], resume=True, **settings(sys.argv[2], draws=1500, max_evaluations=None))
    print("done", flush=True)
