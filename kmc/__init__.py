"""kmc: sample posteriors without gradients.

Public names are listed in ``__init__.pyi``, and imported when they are first used, so that ``import kmc`` and
``kernelmc --help`` do not wait for numba.
"""

from kmc._version import __version__ as __version__
from kmc.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
