"""Compilation beside the first evaluations: it takes twenty seconds when nothing is in the cache yet."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

import numpy as np

from kmc.kernel_hmc.surrogate_chains import Chains, sample
from kmc.samplers.inner_chains import InnerChainOptions
from kmc.surrogate.emulator.emulated import Emulator
from kmc.surrogate.emulator.jit_state import log_densities
from kmc.surrogate.emulator.structure import Structure
from kmc.surrogate.jit_state import gradients
from kmc.surrogate.process import Kind, OfLogDensity, Seen

_lock = threading.Lock()
_threads: dict[type, threading.Thread] = {}  # by the kind of surrogate that they compile first


def compile_in_thread(structure: Structure | None = None) -> None:
    """Start to compile what chains on a surrogate need, or load it from the cache, once in a process.

    With the structure of a model with a simulator, that of emulated outputs comes first.
    """
    kinds: list[Kind] = [OfLogDensity()] if structure is None else [Emulator(structure), OfLogDensity()]
    with _lock:
        if type(kinds[0]) not in _threads:
            # Not a daemon: an interpreter that ends while it compiles dies of a segmentation fault.
            thread = threading.Thread(target=_compile, args=(kinds, structure), name="kmc-compilation")
            _threads[type(kinds[0])] = thread
            thread.start()


def _compile(kinds: Sequence[Kind], structure: Structure | None) -> None:
    """Sample surrogates of a few points."""
    rng = np.random.default_rng(0)
    if structure is None:
        points, outputs = rng.standard_normal((12, 2)), None
        values = -0.5 * np.sum(points**2, axis=1)
    else:
        points = structure.parameters.draw(rng, 12)
        outputs = rng.standard_normal((12, len(structure.data.observed)))
        values = log_densities(structure, points, outputs)
    seen = Seen(points, values, points, np.full(points.shape, np.nan), outputs=outputs)
    for kind in kinds:
        process = kind.first(seen, rng)
        chains = Chains(points, np.ones(len(points)), points, InnerChainOptions(0.5, 1.0, 0.5, 0.5))
        sample(process, chains, rng, blocks=1)
        gradients(process.jit_state, points)


def _wait() -> None:
    """Wait for the threads: a fork would copy the compiler's locks as they are."""
    for thread in list(_threads.values()):
        if thread is not threading.current_thread():
            thread.join()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait)
