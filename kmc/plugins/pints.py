"""kmc as a method of PINTS.

Call ``pints.MCMCController(log_pdf, 4, x0, method=kmc.plugins.pints.KernelHMC)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import kmc
from kmc.plugins import missing
from kmc.samplers.base import SamplerSetup, SamplerState, Step
from kmc.threads import single_threaded

try:
    from pints import MultiChainMCMC
except ImportError as error:
    raise missing("PINTS") from error


class KernelHMC(MultiChainMCMC):
    """Sample by kernel HMC. Warm-up ends before the first iteration, so all iterations are draws.

    NumPy's global seed determines the draws, as for PINTS's own methods.
    """

    def __init__(self, chains: int, x0: Any, sigma0: Any = None):
        super().__init__(chains, x0, sigma0)
        self._state: SamplerState | None = None
        self._points = self._x0
        self._seed = np.random.SeedSequence(np.random.randint(2**31))  # noqa: NPY002, PINTS's generator
        self._last: Step | None = None

    def ask(self) -> np.ndarray:
        """Return the points (k, d) whose log-densities are needed next."""
        return self._points

    def tell(self, fxs: Any) -> Any:
        """Take the log-densities (k,) at these points; return the next draws, or None in warm-up.

        Returns
        -------
        tuple or None
            Draws (chains, d), their log-densities (chains,), and whether each differs from the last
            (chains,).
        """
        values = np.array(fxs, float)
        values[~(values < np.inf)] = -np.inf
        with single_threaded():
            if self._state is None:
                self._state = kmc.KernelHMC().start(
                    SamplerSetup(
                        self._n_parameters,
                        self._n_chains,
                        self._points,
                        values,
                        None,
                        None,
                        None,
                        self._seed,
                    )
                )
                step = None
            else:
                step = self._state.advance(values)
            self._points = self._state.propose()
        if step is None or step.warmup:
            return None
        last, self._last = self._last, step
        moved = (
            np.full(self._n_chains, True)
            if last is None
            else np.any(step.position != last.position, axis=1)
        )
        return step.position, step.log_density, moved

    def current_log_pdfs(self) -> np.ndarray | None:
        """Return the log-densities of the latest draws."""
        return None if self._last is None else self._last.log_density

    @classmethod
    def name(cls) -> str:
        """Return the name for PINTS's messages."""
        return "Kernel HMC"
