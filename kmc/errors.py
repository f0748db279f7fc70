"""The exceptions that kmc raises for what goes wrong outside its own code."""

from __future__ import annotations


class EvaluationError(RuntimeError):
    """The user's log-density raised an exception or returned something that is not a log-density.

    The original exception, if there was one, is the ``__cause__``.

    Attributes
    ----------
    position : ndarray, shape (d,)
        The parameter vector at which the evaluation failed.
    idata : InferenceData or DataTree or None
        The draws made before the failure; set by :func:`kmc.sample` and :func:`kmc.iterate`.
    """

    def __init__(self, message: str, position=None):
        super().__init__(message)
        self.position = position
        self.idata = None


class KmcWarning(UserWarning):
    """A run finished, and something about it deserves the user's attention."""
