"""Estimators give the same results on dask arrays and lists of memory maps as on arrays."""

import numpy as np
import pytest

from kmc.scores import LiteKEF
from kmc.spectral import DiffusionMap


@pytest.fixture(scope="module")
def points():
    return np.random.default_rng(0).standard_normal((300, 2))


def diffusion_map():
    return DiffusionMap(n_components=3, bandwidth=1.0, regularization=1e-3, n_basis=20, random_state=0)


def test_dask_arrays(points):
    da = pytest.importorskip("dask.array")
    lazy = da.from_array(points, chunks=(70, 2))
    score = LiteKEF(bandwidth=1.0, regularization=1e-3, random_state=0)
    expected = score.fit(points).gradient(points[:5])
    np.testing.assert_allclose(score.fit(lazy).gradient(points[:5]), expected, rtol=1e-12)
    np.testing.assert_allclose(diffusion_map().fit(lazy).eigenvalues_, diffusion_map().fit(points).eigenvalues_)
    parts = [da.from_array(part, chunks=(40, 2)) for part in np.array_split(points, 3)]
    np.testing.assert_allclose(diffusion_map().fit(parts).eigenvalues_, diffusion_map().fit(points).eigenvalues_)


def test_lists_of_memory_maps(points, tmp_path):
    maps = []
    for i, part in enumerate(np.array_split(points, 3)):
        np.save(tmp_path / f"{i}.npy", part)
        maps.append(np.load(tmp_path / f"{i}.npy", mmap_mode="r"))
    assert all(isinstance(part, np.memmap) for part in maps)
    np.testing.assert_allclose(diffusion_map().fit(maps).eigenvalues_, diffusion_map().fit(points).eigenvalues_)
