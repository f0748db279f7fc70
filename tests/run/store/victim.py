"""A run in a process of its own, to be killed: python -m tests.run.store.victim STORE SAMPLER."""

import sys
import time
import warnings

import kmc
from tests.run.store.runs import log_density, settings


def slowly(x):
    time.sleep(1e-3)
    return log_density(x)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    asked = settings(sys.argv[2], draws=1500, max_evaluations=None)
    kmc.sample(slowly, store=sys.argv[1], resume=True, **asked)
