"""Values that chains on their own had beyond the last whole sweep are in the store."""

import shutil
import warnings

import numpy as np
import pytest

import kmc
from kmc.run.store.commit import read_commit
from kmc.run.store.files import Folder
from kmc.run.store.parts import read_plain
from tests.grids import slow_except
from tests.run.store.runs import assert_same, log_density, settings
from tests.run.streams import Disorder

pytestmark = pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")

PLAIN = settings("kernel-hmc", chains=3, max_evaluations=400, draws=None)


@pytest.fixture(scope="module")
def uninterrupted():
    """The result of chains that wait for each other."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kmc.sample(log_density, **PLAIN)


def _copied_at(n, path, copy):
    def before(made):
        if made == n:
            shutil.copytree(path, copy)

    return before


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("snapshots", slow_except([True, False], [True]))
def test_a_killed_run_loses_nothing_that_was_committed(tmp_path, uninterrupted, request, snapshots):
    """The copy is what kill -9 leaves behind. Values that are in no whole sweep yet are not
    evaluated again.
    """
    if not snapshots:
        request.getfixturevalue("no_snapshots")
    path, copy = tmp_path / "run.zarr", tmp_path / "copy.zarr"
    whole = kmc.sample(
        log_density,
        store=path,
        executor=Disorder(straggler=2, before=_copied_at(150, path, copy)),
        **PLAIN,
    )
    assert_same(whole, uninterrupted)
    _, commit = read_commit(copy)
    assert commit.ahead is not None
    n_ahead = len(read_plain(Folder(copy), commit.ahead["name"], commit.ahead)["values"])
    order = Disorder(5)
    resumed = kmc.sample(log_density, store=copy, resume=True, executor=order, **PLAIN)
    assert_same(resumed, uninterrupted)
    assert order.n_alone == resumed.attrs["n_evaluations"] - commit.n_evaluations - n_ahead
    np.testing.assert_array_equal(kmc.load(copy).posterior["x"], uninterrupted.posterior["x"])


@pytest.mark.slow
@pytest.mark.usefixtures("often")
def test_a_stopped_run_keeps_values_ahead(tmp_path, uninterrupted):
    path = tmp_path / "run.zarr"
    first = Disorder(straggler=1)
    kmc.sample(log_density, store=path, executor=first, callback=lambda p: p.draw == 20, **PLAIN)
    # asks for none
    kmc.sample(log_density, store=path, resume=True, callback=lambda p: p.phase != "start", **PLAIN)
    second = Disorder(6)
    assert_same(
        kmc.sample(log_density, store=path, resume=True, executor=second, **PLAIN), uninterrupted
    )
    assert (
        first.n_together + first.n_alone + second.n_alone
        <= uninterrupted.attrs["n_evaluations"] + 6
    )


def test_a_damaged_file_costs_evaluations_only(tmp_path, uninterrupted):
    path = tmp_path / "run.zarr"
    kmc.sample(
        log_density,
        store=path,
        executor=Disorder(straggler=1),
        callback=lambda p: p.draw == 20,
        **PLAIN,
    )
    _, commit = read_commit(path)
    (path / commit.ahead["name"]).write_bytes(b"nothing")
    assert_same(
        kmc.sample(log_density, store=path, resume=True, executor=Disorder(8), **PLAIN),
        uninterrupted,
    )
