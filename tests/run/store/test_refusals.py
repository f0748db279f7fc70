"""A store that cannot be resumed is refused, with a sentence that says why."""

import json
import shutil

import numpy as np
import pytest

import kmc
from kmc.run.store.files import Folder
from tests.run.store.runs import Interrupted, Stop, assert_same, log_density, settings

pytestmark = pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")


@pytest.fixture(scope="module")
def dead(tmp_path_factory):
    """A store whose run raised, after the snapshot at the end of warm-up."""
    path = tmp_path_factory.mktemp("dead") / "run.zarr"
    with pytest.raises(kmc.EvaluationError):
        kmc.sample(Interrupted(150, Stop()), store=path, **settings("random-walk"))
    return path


@pytest.fixture
def store(dead, tmp_path):
    return shutil.copytree(dead, tmp_path / "run.zarr")


def go_on(path, target=log_density, **others):
    return kmc.sample(target, store=path, resume=True, **settings("random-walk", **others))


def edit(path, change):
    root = Folder(path).read_json("zarr.json")
    change(root["attributes"]["kmc"])
    Folder(path).write_json("zarr.json", root)


def test_it_exists(store):
    with pytest.raises(FileExistsError, match=r"run.zarr' exists: pass resume=True"):
        kmc.sample(log_density, store=store, **settings("random-walk"))


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"dim": 3}, "dim=2, and this one has 3"),
        ({"chains": 3}, "chains=2, and this one has 3"),
        ({"chains": 4, "independent_runs": 2}, "chains=2"),
        ({"draws": 30}, "draws=40, and this one has 30"),
        ({"max_evaluations": 200}, "max_evaluations=300, and this one has 200"),
        ({"draws": 50, "max_evaluations": 200}, "draws=40, and this one has 50"),
        ({"warmup": 10}, "warmup=null, and this one has 10"),
        ({"seed": 8}, 'seed={"entropy": 7.*, and this one has {"entropy": 8'),
        ({"initial": np.eye(2)}, "initial=null, and this one has"),
        (
            {"sampler": "adaptive-metropolis"},
            'sampler="random-walk", and this one has "adaptive-metropolis"',
        ),
        (
            {"sampler": kmc.RandomWalkMetropolis(target_acceptance=0.3)},
            "settings of the sampler=.*0.234.*0.3",
        ),
    ],
)
def test_another_setting(store, others, message):
    with pytest.raises(ValueError, match=message):
        go_on(store, **others)


def test_another_model(store):
    noisy = kmc.Model(log_density, dim=2, noisy=True)
    with pytest.raises(ValueError, match="noisy=false, and this one has true"):
        go_on(store, noisy, dim=None)
    renamed = kmc.Model(lambda p: -(p["a"] ** 2), parameters={"a": kmc.Real(2)})
    with pytest.raises(ValueError, match='parameters={"x".*, and this one has {"a"'):
        go_on(store, renamed, dim=None)


def test_no_seed_takes_that_of_the_store(store):
    assert_same(go_on(store, seed=None), kmc.sample(log_density, **settings("random-walk")))


@pytest.mark.parametrize("number", [1, 99])
def test_another_format(store, number):
    edit(store, lambda about: about.update(format=number))
    message = (
        rf"has format {number}, and kmc .* reads format \d: use the version that wrote it, kmc \d"
    )
    for call in (go_on, kmc.load):
        with pytest.raises(ValueError, match=message):
            call(store)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", json.dumps({"zarr_format": 3, "node_type": "group"})]
)
def test_something_else(tmp_path, content):
    path = tmp_path / "run.zarr"
    path.mkdir()
    (path / "zarr.json").write_text(content)
    for call in (go_on, kmc.load):
        with pytest.raises(ValueError, match="is not a kmc store"):
            call(path)


def test_a_folder_with_other_files(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(FileExistsError, match=r"is a folder with other files: use another path"):
        kmc.sample(log_density, store=tmp_path, **settings("random-walk"))


def test_a_netcdf_file(tmp_path):
    (tmp_path / "draws.nc").write_text("hello")
    with pytest.raises(
        ValueError, match=r"draws.nc' is not a kmc store: open a netCDF file by arviz.from_netcdf"
    ):
        kmc.load(tmp_path / "draws.nc")


def test_a_file(tmp_path):
    (tmp_path / "run.zarr").write_text("hello")
    for call in (go_on, kmc.load):
        with pytest.raises(ValueError, match="is not a kmc store"):
            call(tmp_path / "run.zarr")
    with pytest.raises(FileExistsError):
        kmc.sample(log_density, store=tmp_path / "run.zarr", **settings("random-walk"))


@pytest.mark.parametrize(
    "column", ["history/point", "history/value", "draws/trace/position", "warmup/0/trace/accepted"]
)
@pytest.mark.parametrize("harm", ["flip", "truncate", "remove"])
def test_damage(store, column, harm):
    chunk = next(file for file in sorted((store / column / "c").rglob("*")) if file.is_file())
    content = bytearray(chunk.read_bytes())
    content[9] ^= 1
    if harm == "remove":
        chunk.unlink()
    else:
        chunk.write_bytes(content if harm == "flip" else content[:9])
    with pytest.raises(ValueError, match=f"damaged, and the run cannot be resumed: .*{column}"):
        go_on(store)


def test_without_a_snapshot_the_history_will_do(store):
    for snapshot in store.glob("snapshot-*"):
        snapshot.write_bytes(b"\0" * snapshot.stat().st_size)
    assert_same(go_on(store), kmc.sample(log_density, **settings("random-walk")))


def test_another_version_runs_the_history_again(store):
    edit(store, lambda about: about["commit"]["versions"].update(kmc="0.0.1"))
    assert_same(go_on(store), kmc.sample(log_density, **settings("random-walk")))


def test_another_course(store, monkeypatch):
    """The points requested now differ from those evaluated before."""
    edit(store, lambda about: about["commit"].update(snapshot=None))
    monkeypatch.setattr("kmc.samplers.random_walk.np.exp", lambda x: 1.0001 * np.e**x)
    with pytest.raises(
        ValueError, match="evaluation .* was made at x = .* with kmc .* target has changed"
    ):
        go_on(store)


@pytest.mark.parametrize("resume", ["unfinished", "finished", "extended"])
def test_another_function(store, resume):
    """Its values would be mixed with those of the first one, or the old draws returned as if they
    were its own.
    """
    if resume != "unfinished":
        go_on(store)
    with pytest.raises(
        ValueError, match="is of a run of another function: at x = .* and is .* now"
    ):
        if resume == "extended":
            kmc.extend(store, draws=5, target=lambda x: log_density(x - 100.0), progress=False)
        else:
            go_on(store, lambda x: log_density(x - 100.0))
    assert_same(go_on(store), kmc.sample(log_density, **settings("random-walk")))


def test_a_store_that_was_being_made(tmp_path):
    """Killed before there was anything to resume."""
    path = tmp_path / "run.zarr"
    path.mkdir()
    (path / "model.pickle").write_bytes(b"")
    assert_same(go_on(path), kmc.sample(log_density, **settings("random-walk")))


def test_bad_arguments(tmp_path):
    with pytest.raises(TypeError, match="store=3: expected a path"):
        go_on(3)
    with pytest.raises(ValueError, match="resume=True and store=None"):
        go_on(None)
    with pytest.raises(TypeError, match="resume='yes': expected True or False"):
        kmc.sample(log_density, store=tmp_path / "x", resume="yes", **settings("random-walk"))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        kmc.load(tmp_path / "nowhere.zarr")


@pytest.mark.parametrize("path", ["x" * 5000, "a\0b", "\udcff\ud800"])
def test_a_path_that_no_system_has(path):
    for call in (lambda: go_on(path), lambda: kmc.load(path), lambda: kmc.extend(path, draws=1)):
        with pytest.raises(ValueError, match="expected a path that the system can have"):
            call()


@pytest.mark.parametrize("name", ["a\0b", "..", "."])
def test_parameters_of_any_name(tmp_path, name):
    path = tmp_path / "run.zarr"
    model = kmc.Model(lambda p: -0.5 * float(np.sum(p[name] ** 2)), parameters={name: kmc.Real(2)})
    result = go_on(path, model, dim=None)
    # a path, for a DataTree of ArviZ >= 1
    loaded, made = (idata.posterior.data_vars[name] for idata in (kmc.load(path), result))
    assert np.array_equal(loaded, made)
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.zarr"]
