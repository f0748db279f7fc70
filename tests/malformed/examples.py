"""How many examples there are, and the data that all of them take."""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

EXAMPLES = {"models": 320, "samples": 320, "returned": 260}


def the(part):
    """As many examples as that part has, the same ones each time."""
    examples = settings(
        max_examples=EXAMPLES[part],
        deadline=None,  # a watchdog of our own looks after every call
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    quiet = pytest.mark.filterwarnings(
        "ignore::kmc.errors.KmcWarning", "ignore::PendingDeprecationWarning"
    )
    return lambda test: quiet(examples(test))


RNG = np.random.default_rng(5)
X = RNG.standard_normal((24, 2))


def normal(x):
    return -0.5 * float(np.sum(x * x))
