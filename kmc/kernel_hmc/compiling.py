"""Compilation beside the first evaluations: it takes twenty seconds when nothing is in the cache yet."""

from __future__ import annotations

import os
import threading

import numpy as np

from kmc.kernel_hmc.surrogate_chains import Chains, sample
from kmc.samplers.inner_chains import InnerChainOptions
from kmc.surrogate.jit_state import gradients
from kmc.surrogate.process import Seen, first_fit

_lock = threading.Lock()
_thread: threading.Thread | None = None


def compile_in_thread() -> None:
    """Start to compile what chains on a surrogate need, or load it from the cache, once in a process."""
    global _thread
    with _lock:
        if _thread is None:
            # Not a daemon: an interpreter that ends while it compiles dies of a segmentation fault.
            _thread = threading.Thread(target=_compile, name="kmc-compilation")
            _thread.start()


def _compile() -> None:
    """Sample the surrogate of a normal density."""
    rng = np.random.default_rng(0)
    points = rng.standard_normal((12, 2))
    seen = Seen(points, -0.5 * np.sum(points**2, axis=1), points, np.full(points.shape, np.nan))
    process = first_fit(seen, rng)
    chains = Chains(points, np.ones(len(points)), points, InnerChainOptions(0.5, 1.0, 0.5, 0.5))
    sample(process, chains, rng, blocks=1)
    gradients(process.jit_state, points)


def _wait() -> None:
    """Wait for the thread: a fork would copy the compiler's locks as they are."""
    if _thread is not None and _thread is not threading.current_thread():
        _thread.join()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait)
