"""The version of kmc, defined once.

The build, the attributes of results and ``kmc.__version__`` read it here.
"""

__version__ = "0.1.0"
