"""Runs for all files that read them out; none changes them."""

import pytest

import kmc
from tests.posterior.curved import MODEL, log_density


@pytest.fixture(scope="session")
def path(tmp_path_factory):
    """The store of the run."""
    return tmp_path_factory.mktemp("store") / "run.zarr"


@pytest.fixture(scope="session")
def idata(path):
    """A run of 2,000 evaluations."""
    return kmc.sample(
        log_density, dim=2, draws=None, max_evaluations=2000, seed=1, progress=False, store=path
    )


@pytest.fixture(scope="session")
def named():
    """A run of 800 evaluations of parameters with names."""
    return kmc.sample(MODEL, draws=None, max_evaluations=800, seed=2, progress=False)
