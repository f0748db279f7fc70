"""The settings of a store's run: a resumed run must have the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kmc.run.results import described
from kmc.run.store.commit import StoreError

if TYPE_CHECKING:
    from kmc.run.request import Request


def settings(request: Request) -> dict[str, Any]:
    """All settings that determine which draws a seed gives, and their names, in JSON form."""
    model = request.model
    options = described({"settings": request.sampler})["settings"]
    asked = {
        "dim": model.dim,
        "parameters": {name: [list(shape), list(model.dims[name])] for name, shape in _shapes(model).items()},
        "coords": {name: coordinates(labels)["values"] for name, labels in model.coords.items()},
        "noisy": model.noisy,
        "sampler": request.sampler.name,
        "settings of the sampler": re.sub(r" at 0x[0-9a-f]+", "", str(options)),
        "chains": request.chains,
        "independent_runs": request.independent_runs,
        "draws": request.draws,
        "warmup": request.warmup,
        "max_evaluations": request.max_evaluations,
        "history": None if request.history is None else [len(request.history.x), request.history.digest],
        "initial": None if request.initial is None else request.initial.tolist(),
        "seed": {"entropy": request.seed.entropy, "spawn_key": list(request.seed.spawn_key)},
    }
    return json.loads(json.dumps(asked, default=np.ndarray.tolist))


def check_settings(path: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """StoreError that names the first setting that differs."""
    for name, value in now.items():
        if before.get(name) != value:
            raise StoreError(
                f"store={str(path)!r} is of a run with {name}={_short(before.get(name))}, and this one has "
                f"{_short(value)}: resume it with the same arguments, or use another path"
            )


def coordinates(labels: Any) -> dict[str, Any]:
    """Labels of a dimension in JSON form; :func:`from_coordinates` converts them back."""
    labels = np.asarray(labels)
    kept = labels.astype(str) if labels.dtype.kind in "mM" else labels
    return {"dtype": "object" if labels.dtype == object else labels.dtype.str, "values": kept.tolist()}


def from_coordinates(record: dict[str, Any]) -> np.ndarray:
    """The labels (n,)."""
    return np.array(record["values"], dtype=record["dtype"])


def _shapes(model):
    return {name: value.shape[1:] for name, value in model.constrain(np.zeros((1, model.dim))).items()}


def _short(value):
    text = json.dumps(value)
    return text if len(text) <= 200 else text[:197] + "..."
