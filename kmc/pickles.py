"""Load pickles: the only place in the package that does, as loading a pickle can run any code."""

from __future__ import annotations

import pickle
from typing import Any


class Untrusted(ValueError):
    """A pickle that was not loaded because the user does not trust where it comes from."""


def load_pickle(content: bytes, *, trust: bool) -> Any:
    """Return the object that was pickled, if the user trusts where the bytes come from.

    Parameters
    ----------
    content : bytes
        A pickle, also one that cloudpickle wrote.
    trust : bool
        The user's decision. Only bytes that this program sent to its own workers are trusted
        without asking.

    Raises
    ------
    Untrusted
        ``trust`` is False; nothing was loaded.

    Examples
    --------
    >>> import pickle
    >>> from kmc.pickles import load_pickle
    >>> load_pickle(pickle.dumps([1, 2]), trust=True)
    [1, 2]
    """
    if trust is not True:
        raise Untrusted("trust=False: a pickle can run any code when it is loaded")
    return pickle.loads(content)
