"""Pickles restore arrays with their strides, which determine the order of summation."""

import pickle

import numpy as np
import pytest

from kmc.run.prepare import prepare
from kmc.run.store.snapshot import ExactPickler, pickled
from tests.grids import slow_except
from tests.run.store.runs import SAMPLERS, log_density

pytestmark = pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")


class Arrays(ExactPickler):
    """Records the memory layout of all arrays in an object."""

    def __init__(self, thing):
        super().__init__(Sink(), protocol=5)
        self.layouts = []
        self.dump(thing)

    def reducer_override(self, thing):
        if isinstance(thing, np.ndarray) and thing.size:
            self.layouts.append((thing.shape, thing.strides, thing.dtype))
        return super().reducer_override(thing)


class Sink:
    def write(self, content):
        return len(content)


@pytest.mark.parametrize("name", slow_except(list(SAMPLERS), {"delayed", "vanishing"}))
def test_the_layout_of_arrays_is_kept(name):
    run = prepare(
        target=log_density,
        dim=3,
        initial=None,
        sampler=SAMPLERS[name],
        draws=30,
        warmup=None,
        chains=2,
        max_evaluations=250,
        seed=5,
    )
    for record in run.sweeps():
        if record.phase == "done":
            state = run.state()
    restored = pickle.loads(pickled(state))
    layouts = set(Arrays(state).layouts)
    assert len(layouts) > 3
    assert set(Arrays(restored).layouts) == layouts


@pytest.mark.parametrize("key", [np.s_[:, 3], np.s_[::2, 1:4], np.s_[5]])
def test_parts_of_an_array(key):
    part = np.arange(48.0).reshape(6, 8)[key]
    restored = pickle.loads(pickled(part))
    assert np.array_equal(restored, part)
    assert restored.strides == part.strides
