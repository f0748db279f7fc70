"""``kmc.sample(pymc_model, sampler="nuts")``: PyMC's gradients through nutpie, as a yardstick."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kmc._names import install
from kmc.checks import as_flag, as_number
from kmc.run.arguments import as_seed

_TAKEN = ("target", "sampler", "draws", "warmup", "chains", "seed", "progress", "save_warmup")


def sample_nutpie(function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """Draws of a PyMC model by nutpie, from the ``locals()`` of :func:`kmc.sample`.

    Raises
    ------
    ImportError
        nutpie is not installed.
    TypeError
        The target is no PyMC model, or an argument has no meaning here.
    """
    __tracebackhide__ = True
    if type(given["target"]).__module__.partition(".")[0] != "pymc":
        raise TypeError(
            f"sampler='nuts' is for PyMC models, whose gradient is known, and target={given['target']!r} is none: pass "
            "sampler=kmc.NUTS(gradient) with a gradient of your own"
        )
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in _TAKEN and parameter.kind is not parameter.VAR_KEYWORD and given[name] != parameter.default:
            raise TypeError(f"{name}={given[name]!r}: nutpie, which sampler='nuts' runs, has no such argument")
    draws, chains = as_number("draws", given["draws"], 1), as_number("chains", given["chains"], 1)
    warmup = None if given["warmup"] is None else as_number("warmup", given["warmup"], 1)
    seed, progress = as_seed(given["seed"]), as_flag("progress", given["progress"])
    save_warmup = as_flag("save_warmup", given["save_warmup"])
    try:
        import nutpie
    except ImportError as error:
        raise ImportError(f"sampler='nuts' needs nutpie: {install('nuts')}") from error
    idata = nutpie.sample(
        nutpie.compile_pymc_model(given["target"]),
        draws=int(draws),
        tune=None if warmup is None else int(warmup),
        chains=int(chains),
        seed=int(seed.generate_state(1)[0]),
        progress_bar=progress,
        save_warmup=True,  # its gradients are counted
    )
    stats = [idata[group]["n_steps"].values for group in ("sample_stats", "warmup_sample_stats")]
    idata.posterior.attrs |= {"sampler": "nuts", "n_gradients": int(np.sum([part.sum() for part in stats]))}
    idata.attrs |= {name: idata.posterior.attrs[name] for name in ("sampler", "n_gradients")}
    if not save_warmup:
        groups = idata.groups() if callable(idata.groups) else list(idata.children)
        for group in [name for name in groups if name.startswith("warmup_")]:
            del idata[group]
    return idata
