"""Diagnostics of finished chains.

Public names are listed in ``__init__.pyi``, and imported when they are first used.
"""

from kmc.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
