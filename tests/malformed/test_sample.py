"""``kmc.sample`` with malformed arguments."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import kmc
from tests.malformed.cases import Case, calls, finite, hold
from tests.malformed.examples import X, normal, the


class Pool:
    """A pool whose ``map`` is not one."""

    def __init__(self, answer):
        self._answer = answer

    def map(self, function, iterable):
        return self._answer(function, list(iterable))

    def __repr__(self):
        return "Pool()"


POOLS = [
    Pool(answer)
    for answer in (
        lambda f, items: None,
        lambda f, items: [],
        lambda f, items: [f(item) for item in items][:-1],
        lambda f, items: [0.0] * len(items),
        lambda f, items: ["a"] * len(items),
        lambda f, items: [None] * len(items),
        lambda f, items: 1 / 0,
        lambda f, items: 3,
        lambda f, items: [f(item) for item in items],
    )
]


def is_a_run(idata, arguments):
    x = idata.posterior["x"].values
    assert x.shape[0] == arguments["chains"] and x.shape[2] == 2
    assert arguments["draws"] is None or x.shape[1] <= arguments["draws"]
    finite(x, x.shape)
    finite(idata.sample_stats["lp"].values, x.shape[:2])
    if arguments["max_evaluations"] is not None:
        assert idata.posterior.attrs["n_evaluations"] <= arguments["max_evaluations"]


RUN = Case(
    "sample",
    kmc.sample,
    {
        "target": normal,
        "dim": 2,
        "initial": X[:2],
        "sampler": "random-walk",
        "draws": 5,
        "warmup": 4,
        "chains": 2,
        "max_evaluations": 30,
        "seed": 1,
        "progress": False,
        "callback": lambda progress: None,
        "save_warmup": False,
        "independent_runs": 1,
        "executor": None,
        "history": None,
    },
    is_a_run,
    also={
        "target": ("log_density",),
        "dim": ("initial",),
        "chains": ("initial", "max_evaluations"),
        "independent_runs": ("chains",),
        "executor": ("workers",),
    },
    costly=frozenset({"dim"}),
)


@st.composite
def runs(draw):
    case, argument, value = draw(calls([RUN]))
    if argument == "executor":
        if isinstance(value, (int, np.integer)) and value > 0:
            value = draw(st.sampled_from(POOLS))  # and no processes
    elif argument == "max_evaluations" and value is None:
        value = 4
    elif argument == "callback" and draw(st.booleans()):
        returned = value
        value = lambda progress: returned  # noqa: E731
    return case, argument, value


@the("samples")
@given(runs())
def test_arguments_of_sample(call):
    hold(*call)
