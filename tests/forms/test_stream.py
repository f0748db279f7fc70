import tracemalloc

import numpy as np
import pytest

from kmc.bases import KernelSections, Monomials
from kmc.forms import FORMS, accumulate, accumulate_folds
from kmc.kernels import Gaussian
from tests.forms.common import General, assert_same

N, DIM, LAG = 57, 2, 3


@pytest.fixture
def basis():
    return KernelSections(Gaussian(1.5), np.random.default_rng(5).standard_normal((4, DIM)))


@pytest.fixture
def x():
    return np.random.default_rng(6).standard_normal((N, DIM))


@pytest.fixture
def data():
    rng = np.random.default_rng(7)
    vectors = {name: rng.standard_normal((N, DIM)) for name in ("gradients", "base_gradient")}
    return {"weights": rng.random(N), "values": rng.standard_normal(N), **vectors}


class Chunked:
    """As much of a dask array as is used: row blocks that are computed when asked for."""

    def __init__(self, array, sizes):
        self.shape, self.ndim, self.numblocks = (
            array.shape,
            array.ndim,
            (len(sizes), *[1] * (array.ndim - 1)),
        )
        ends = np.cumsum(sizes)
        self.blocks = [Computed(array[end - size : end]) for end, size in zip(ends, sizes)]

    def to_delayed(self):
        raise AssertionError("not needed")

    def __len__(self):
        return self.shape[0]


class Computed:
    def __init__(self, array):
        self.array = array

    def compute(self):
        return self.array


def generator(array, sizes=(10, 1, 0, 30, 16)):
    ends = np.cumsum(sizes)
    return (array[end - size : end] for end, size in zip(ends, sizes))


def on_disk(array, path):
    mapped = np.lib.format.open_memmap(path, mode="w+", dtype=float, shape=array.shape)
    mapped[:] = array
    mapped.flush()
    return np.load(path, mmap_mode="r")


SOURCES = {
    "generator": lambda a, path: generator(a),
    "one row at a time": lambda a, path: (row[None] for row in a),
    "memory map": on_disk,
    "dask": lambda a, path: Chunked(a, (20, 20, 17)),
    "list of one": lambda a, path: [a],
    "list of a generator": lambda a, path: [generator(a)],
    "nested lists": lambda a, path: a.tolist(),
    "fortran": lambda a, path: np.asfortranarray(a),
    "strided": lambda a, path: np.repeat(a, 2, axis=0)[::2],
    "read-only": lambda a, path: np.broadcast_to(a, a.shape),
}


@pytest.mark.parametrize("block", [8, 1000])
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_streamed_is_in_memory(basis, x, data, source, block, tmp_path):
    streamed = accumulate(
        basis, source(x, tmp_path / "x.npy"), FORMS, **data, lagtime=LAG, block=block
    )
    assert_same(streamed, accumulate(basis, x, FORMS, **data, lagtime=LAG))


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_what_goes_with_the_samples_streams_too(basis, x, data, source, tmp_path):
    streams = {name: source(array, tmp_path / f"{name}.npy") for name, array in data.items()}
    streamed = accumulate(basis, generator(x, (30, 27)), FORMS, **streams, lagtime=LAG, block=11)
    assert_same(streamed, accumulate(basis, x, FORMS, **data, lagtime=LAG))


def test_a_base_gradient_may_be_a_function(basis, x):
    function = accumulate(basis, generator(x), ("linear",), base_gradient=lambda x: -2.0 * x)
    assert_same(function, accumulate(basis, x, ("linear",), base_gradient=-2.0 * x))


def test_a_real_dask_array(basis, x, data):
    dask = pytest.importorskip("dask.array")
    chunked = dask.from_array(x, chunks=(13, 1))  # of columns, too
    lazy = {name: dask.from_array(array, chunks=20) for name, array in data.items()}
    whole = accumulate(basis, x, FORMS, **data, lagtime=LAG)
    assert_same(accumulate(basis, chunked, FORMS, **lazy, lagtime=LAG, block=9), whole)
    assert_same(accumulate(basis, [chunked], FORMS, **lazy, lagtime=LAG), whole)
    folds = accumulate_folds(basis, chunked, FORMS, 3, **lazy, lagtime=LAG)
    assert_same(folds[0] + folds[1] + folds[2], whole)


def test_folds_of_a_stream(basis, x, data):
    labels = np.arange(N) % 4
    streamed = accumulate_folds(
        basis, generator(x), FORMS, generator(labels, (7, 50)), **data, lagtime=LAG, block=9
    )
    for one, other in zip(
        streamed, accumulate_folds(basis, x, FORMS, labels, **data, lagtime=LAG), strict=True
    ):
        assert_same(one, other)
    with pytest.raises(ValueError, match="not known before they are read"):
        accumulate_folds(basis, generator(x), ("mass",), 4)


def test_a_list_of_arrays_is_all_of_them(basis, x, data):
    parts = slice(20), slice(20, 21), slice(21, N)
    weights = [data["weights"][part] for part in parts]
    forms = ("mass", "dirichlet")
    whole = accumulate(basis, x, forms, weights=data["weights"])
    assert_same(accumulate(basis, [x[part] for part in parts], forms, weights=weights), whole)
    assert_same(
        accumulate(
            basis, tuple(x[part] for part in parts), forms, weights=data["weights"], block=4
        ),
        whole,
    )
    folds = accumulate_folds(basis, [x[part] for part in parts], forms, 3)
    assert_same(folds[1], accumulate(basis, x[19:38], forms))


def test_single_precision_and_whole_numbers_are_taken_as_they_are(basis, x):
    single = x.astype(np.float32)
    assert_same(
        accumulate(basis, single, ("mass",)), accumulate(basis, single.astype(float), ("mass",))
    )
    whole = np.rint(3 * x)
    assert_same(
        accumulate(basis, whole.astype(int), ("mass",)), accumulate(basis, whole, ("mass",))
    )


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.empty((0, DIM)), "x has no rows"),
        (iter([]), "x has no rows"),
        ([], "x has a block of shape|no rows"),
        (np.ones(5), r"x has a block of shape \(5,\)"),
        (np.full((4, DIM), np.nan), "x contains NaN"),
        (np.ones((4, DIM), complex), "complex128"),
        ([["a", "b"]], "expected real numbers"),
        ([np.ones((4, DIM)), np.ones((4, 3))], "different widths"),
        (iter([np.ones((2048, DIM)), np.ones((4, 3))]), "3 columns in one block and 2"),
    ],
)
def test_errors_say_what_is_wrong(basis, x, message):
    with pytest.raises(ValueError, match=message):
        accumulate(basis, x, ("mass",))


def peak(n, basis, forms, **options):
    """Most memory in use while n samples are streamed, in numbers of 8 bytes."""
    rng = np.random.default_rng(0)
    source = (rng.standard_normal((500, 3)) for _ in range(n // 500))
    tracemalloc.start()
    accumulate(basis, source, forms, block=500, **options)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most / 8


@pytest.mark.parametrize("general", [False, True])
def test_memory_is_bounded(general):
    """A few arrays of (block, p) and (p, p), however many samples there are: (n, p) would be four
    million numbers.
    """
    sections = KernelSections(Gaussian(1.0), np.random.default_rng(1).standard_normal((100, 3)))
    basis = General(sections) if general else sections
    few, many = (peak(n, basis, ("mass", "dirichlet", "linear")) for n in (1000, 40_000))
    assert many < 1.1 * few
    # of the general mode d = 3 times as much
    assert many < (20 if general else 10) * (500 * 100 + 100**2)


def test_memory_of_lagged_forms_is_bounded():
    basis = Monomials(3, 3)  # 19 functions
    few, many = (peak(n, basis, ("lagged",), lagtime=100) for n in (1000, 40_000))
    assert many < 1.1 * few
    assert many < 15 * (600 * 19 + 19**2)
