"""Seeds and the streams of one seed."""

import numpy as np
import pytest

from kmc.seeds import Stream, as_generator, as_seed, substream


def numbers(seed):
    return seed.generate_state(4).tolist()


def test_a_generator_is_used_as_it_is():
    rng = np.random.default_rng(0)
    assert as_generator(rng) is rng
    with pytest.raises(
        TypeError, match="^random_state='zero': expected None, a non-negative whole number"
    ):
        as_generator("zero")


def test_streams_differ_from_each_other_and_from_spawned_seeds():
    seed = as_seed(3)
    streams = [numbers(substream(seed, stream)) for stream in Stream]
    spawned = [numbers(child) for child in seed.spawn(4)]
    assert len(set(map(tuple, streams + spawned))) == len(Stream) + 4
    # whatever was spawned
    assert [numbers(substream(seed, stream)) for stream in Stream] == streams
