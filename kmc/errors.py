"""The exceptions that kmc raises for what goes wrong outside its own code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


class EvaluationError(RuntimeError):
    """The user's log-density raised an exception or returned something that is not a log-density.

    The original exception, if there was one, is the ``__cause__``.

    Attributes
    ----------
    position : ndarray, shape (d,)
        The parameter vector at which the evaluation failed, unconstrained; (k, d) if a call that took several points
        failed as a whole.
    parameters : dict of str to array or float, or None
        The same by name, as the log-density got them; None if the parameters have no names.
    idata : InferenceData or DataTree or None
        The draws made before the failure; set by :func:`kmc.sample` and :func:`kmc.iterate`.
    """

    def __init__(
        self, message: str, position: np.ndarray | None = None, parameters: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.position = position
        self.parameters = parameters
        self.idata: Any = None


class KmcWarning(UserWarning):
    """A run finished, and something about it deserves the user's attention."""
