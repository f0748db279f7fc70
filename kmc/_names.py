"""What kmc is installed as and run as, stated once: import hints and help texts are made from it.

On the package index ``kmc`` is another project, and the command ``kmc`` of Debian and Bioconda counts k-mers.
"""

DISTRIBUTION = "kernelmc"
COMMAND = "kernelmc"


def install(extra: str) -> str:
    """The shell command that installs an optional dependency.

    Examples
    --------
    >>> from kmc._names import install
    >>> print(install("zarr"))
    pip install "kernelmc[zarr]"
    """
    return f'pip install "{DISTRIBUTION}[{extra}]"'
