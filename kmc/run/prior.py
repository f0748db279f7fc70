"""Draws from the prior, stored with the results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kmc.run.request import Request

N_DRAWS = 500
_STREAM = 2**31  # a key that no SeedSequence of the run spawns: these draws do not change the others


def data_of(request: Request) -> dict[str, Mapping[str, Any]]:
    """By group and name, dimensions and arrays that are stored with the draws: the model's data, draws of its prior."""
    model = request.model
    if model.prior is None:
        return dict(model.data)
    seed = np.random.SeedSequence(request.seed.entropy, spawn_key=(*request.seed.spawn_key, _STREAM))
    draws = model.prior.draw(np.random.default_rng(seed), N_DRAWS)
    prior = {name: (("chain", "draw", *model.dims[name]), values[None]) for name, values in draws.items()}
    return {**model.data, "prior": prior}
