"""Names of the distribution and the command, defined once: import hints and help texts use them.

On the package index ``kmc`` is another project, and the command ``kmc`` of Debian and Bioconda
counts k-mers.
"""

DISTRIBUTION = "kernelmc"
COMMAND = "kernelmc"


def install(extra: str) -> str:
    """Return the shell command that installs an optional dependency.

    Examples
    --------
    >>> from kmc._names import install
    >>> print(install("dask"))
    pip install "kernelmc[dask]"
    """
    return f'pip install "{DISTRIBUTION}[{extra}]"'
