"""Exceptions and warnings of kmc."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

_HOME = Path(__file__).parent


class EvaluationError(RuntimeError):
    """The user's log-density raised an exception or returned an invalid value.

    The original exception, if there was one, is the ``__cause__``.

    Attributes
    ----------
    position : ndarray, shape (d,)
        The parameter vector at which the evaluation failed, unconstrained; (k, d) if a call with
        several points failed as a whole.
    parameters : dict of str to array or float, or None
        The same by name, as passed to the log-density; None if the parameters have no names.
    idata : InferenceData or DataTree or None
        The draws made before the failure; set by :func:`kmc.sample` and :func:`kmc.iterate`.
    reason : str
        Of a call that gave no result, as it raised an exception, took too long or ended its
        process: a few words, such as "ValueError: no steady state". ``kmc.Model(on_error=...)``
        decides what becomes of such calls. Empty for other errors.
    """

    def __init__(
        self,
        message: str,
        position: np.ndarray | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.position = position
        self.parameters = parameters
        self.idata: Any = None
        self.reason = ""


def shorten(error: Exception) -> None:
    """Remove kmc's frames from the traceback of an error in the user's log-density.

    Its ``__cause__`` begins where the user's code does. Other errors are left unchanged.
    """
    if isinstance(error, EvaluationError):
        error.__traceback__ = None
        if error.__cause__ is not None:
            error.__cause__.__traceback__ = _from_outside(error.__cause__.__traceback__)


def _from_outside(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback from its first frame outside of kmc; all of it if there is none."""
    frame = traceback
    while frame is not None and Path(frame.tb_frame.f_code.co_filename).is_relative_to(_HOME):
        frame = frame.tb_next
    return frame or traceback


class KmcWarning(UserWarning):
    """A problem of a run or a result that deserves the user's attention."""


def warn(message: str, category: type[Warning] = KmcWarning) -> None:
    """Warn at the innermost frame outside of kmc: the user's line, whatever lies between."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        ("kmc.", "importlib")
    ):
        frame = frame.f_back
        # which warnings do not count
        level += "importlib._bootstrap" not in frame.f_code.co_filename
    warnings.warn(message, category, stacklevel=level)
