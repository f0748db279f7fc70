"""Stores that somebody has prepared: each case changes a copy of a good store, with valid
checksums.

Every case is a function of a :class:`Crafted` store. ``tests/run/store/test_hostile.py`` reads,
resumes and extends the result, and looks at what happened outside of it.
"""

from __future__ import annotations

import os
import pickle
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kmc.run.store.files import Folder
from kmc.run.store.plain import Plain, flatten

CASES: dict[str, Callable[[Crafted], None]] = {}


class Payload:
    """Leaves a file where it is unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


class Crafted:
    """A copy of a store, and a folder beside it that nobody may touch."""

    def __init__(self, path: Path, outside: Path):
        self.path, self.outside = path, outside
        self.executed = outside.parent / "executed"

    def root(self, change: Callable[[dict[str, Any]], Any]) -> None:
        """Change the attributes of the root, in both copies, and their checksums."""
        folder = Folder(self.path)
        content = folder.read_json("zarr.json")
        change(content["attributes"]["kmc"])
        for name in ("zarr.json", "commit.json"):
            folder.write_json(name, content)

    def write(self, name: str, content: bytes) -> dict[str, Any]:
        """Write a file and return the record that fits it."""
        (self.path / name).write_bytes(content)
        return {"size": len(content), "crc": zlib.crc32(content)}

    def pickle(self, name: str) -> dict[str, Any]:
        """Write a pickle that leaves a file behind when it is loaded."""
        return self.write(name, pickle.dumps(Payload(self.executed)))

    def linked(self, name: str) -> None:
        """Replace a file or folder by a link to a copy of it outside."""
        path, target = self.path / name, self.outside / Path(name).name
        if path.is_dir():
            shutil.move(path, target)
        elif path.exists():
            path.replace(target)
        else:
            target.write_bytes(b"precious")
        path.symlink_to(target, target_is_directory=target.is_dir())

    def fifo(self, name: str) -> None:
        """Replace a file by a pipe that nobody writes to."""
        (self.path / name).unlink(missing_ok=True)
        os.mkfifo(self.path / name)


def case(function: Callable[[Crafted], None]) -> Callable[[Crafted], None]:
    """Add a case under its name."""
    CASES[function.__name__] = function
    return function


def setting(name: str, *values: Any) -> None:
    """Add a case for each value of a setting."""
    for value in values:
        CASES[f"{name}={value!r:.30}"] = lambda crafted, value=value: crafted.root(
            lambda about: about["settings"].update({name: value})
        )


def committed(name: str, *values: Any) -> None:
    """Add a case for each value of a part of the commit."""
    for value in values:
        CASES[f"commit {name}={value!r:.30}"] = lambda crafted, value=value: crafted.root(
            lambda about: about["commit"].update({name: value})
        )


def header(name: str, *values: Any) -> None:
    """Add a case for each value of a part of the header."""
    for value in values:
        CASES[f"header {name}={value!r:.30}"] = lambda crafted, value=value: crafted.root(
            lambda about: about.update({name: value})
        )


def column(**changes: Any) -> None:
    """Add a case for each change of the record of the positions."""
    for name, value in changes.items():
        CASES[f"column {name}={value!r:.30}"] = lambda crafted, name=name, value=value: (
            crafted.root(
                lambda about: about["commit"]["columns"]["draws/trace"]["position"].update(
                    {name: value}
                )
            )
        )


setting("chains", 10**9, -1, 0, 2.5, "2", True)
setting("dim", 10**9, 0, None)
setting("independent_runs", 0, 2, 3, 10**9)
setting(
    "seed",
    None,
    {"entropy": -1, "spawn_key": []},
    {"entropy": 1, "spawn_key": [2**40]},
    {"entropy": "x" * 99},
)
setting(
    "parameters", {"x": [[10**9], ["d"]]}, {"x": [[2], []]}, {"../x": [[2], ["d"]]}, {"x": 3}, []
)
setting("settings of the sampler", 5, None)
setting("initial", [["a"]], "x", [[1e400, 0.0]])
committed("n_draws", 10**12, -1, "7", 10**400)
committed("n_evaluations", 10**12)
committed("n_warmup", [10**12], [], [-1], 3)
committed(
    "snapshot",
    {"name": "../../etc", "size": 1, "crc": 1, "signature": ""},
    {"name": "snapshot-0"},
    [1],
)
committed("surrogate", {"size": 10**15, "crc": 0}, "surrogate")
committed("ahead", {"name": "../ahead-0", "size": 1, "crc": 1})
committed(
    "attrs",
    {"warnings": "[" * 10**5},
    {"warnings": "{}"},
    {"a": {"b": 1}},
    {"a": 10**30},
    {"moves": "x"},
)
committed("versions", {"kmc": 3}, None)
committed("at", "yesterday", "2026-01-01", 7)
committed("seconds", float("nan"), 1e300, -1)
committed("finished", "yes", None)
committed("columns", {}, [], {"draws/trace": {}}, {"../../draws": {}})
header(
    "coords",
    {"d": {"dtype": "O", "values": [[1], [2]]}},
    {"d": {"dtype": "|V8", "values": [1]}},
    [1],
)
header("coords", {"d": {"dtype": "<U9", "values": ["x" * 10**5] + ["y"] * 10**4}})
header("data", {"size": 3, "crc": 0, "groups": ["observed_data"]}, {"groups": []})
header("model", {"name": "../../model", "size": -1, "crc": 0})
header("sampler", {"size": 1e9, "crc": 0})
header("evaluations", {"size": 10**15, "crc": 0})
header("format", [], 10**300, None, "3")
header("dims", {"x": 3}, {"y": []})
column(shape=[10**9, 2], dtype="object", dims=["a"], crcs=[])
CASES |= {
    f"dtype {dtype}": lambda crafted, dtype=dtype: crafted.root(
        lambda about: about["commit"]["columns"]["draws/trace"]["position"].update(dtype=dtype)
    )
    for dtype in ("S1000000", "float64,float64", "<U500000000", "float16", "complex999")
}


def empty(**changes: Any) -> Callable[[Crafted], None]:
    """Make a store without draws, whose files say nothing about sizes, with changed settings."""

    def change(about: dict[str, Any]) -> None:
        about["commit"].update(n_draws=0, n_evaluations=0, n_warmup=[0], columns={}, snapshot=None)
        about["settings"].update(changes)
        about["dims"] = {name: dims for name, (_, dims) in about["settings"]["parameters"].items()}

    return lambda crafted: crafted.root(change)


CASES["a billion chains without draws"] = empty(chains=10**9)
CASES["a billion parameters without draws"] = empty(dim=10**9)
CASES["a billion numbers without draws"] = empty(parameters={"x": [[10**9], ["d"]]})


@case
def labels_of_two_gigabytes(crafted):
    crafted.root(
        lambda about: about.update(coords={"d": {"dtype": "<U500000000", "values": ["a", "b"]}})
    )


@case
def a_snapshot_with_pickles(crafted):
    """The records of an earlier format, in which the store itself said whether it held pickles."""
    (crafted.path / "snapshots").mkdir()
    pickles = crafted.pickle("snapshots/pickles")
    crafted.root(
        lambda about: about["commit"].update(snapshot={"name": "snapshots", "pickles": pickles})
    )


@case
def blocks_with_pickles(crafted):
    pickles = crafted.pickle("blocks")
    crafted.root(lambda about: about.update(blocks={"name": "blocks", "pickles": pickles}))


@case
def a_sampler_with_a_pickle(crafted):
    pickled = crafted.pickle("sampler.pickle")
    crafted.root(lambda about: about["sampler"].update(pickle=pickled, foreign=None))


@case
def a_model_that_is_a_payload(crafted):
    pickled = crafted.pickle("model.pickle")
    crafted.root(lambda about: about.update(model=pickled))


@case
def a_snapshot_that_is_a_pickle(crafted):
    record = crafted.pickle("snapshot-0")
    crafted.root(
        lambda about: about["commit"].update(
            snapshot={**record, "name": "snapshot-0", "signature": "00"}
        )
    )


def plain(
    name: str, record: Callable[[dict[str, Any]], Any], structure: str
) -> Callable[[Crafted], None]:
    """Write plain data with this structure, and its record where a function says."""

    def change(crafted: Crafted) -> None:
        part = crafted.write(name, Plain(structure, b"\0" * 64, []).packed())
        crafted.root(lambda about: record(about).update(part))

    return change


FORGED = {
    "class": '["instance", "os:system", {}]',
    "deep": "[" * 100_000,
    "huge": '["array", "<f8", [1000000000000], "C", null, true, [0, 64]]',
    "gaps": '["array", "<f4", [2], "C", [1000000000000], true, [0, 8]]',
    "empty": '["objects", [1000000000000], []]',
    "number": "3",
    "not json": "{",
}
for _name, _structure in FORGED.items():
    CASES[f"sampler: {_name}"] = plain("sampler", lambda about: about["sampler"], _structure)
    CASES[f"surrogate: {_name}"] = plain(
        "surrogate",
        lambda about: about["commit"].update(surrogate={}) or about["commit"]["surrogate"],
        _structure,
    )
    CASES[f"data: {_name}"] = plain(
        "data",
        lambda about: about.update(data={"groups": ["observed_data"]}) or about["data"],
        _structure,
    )


@case
def draws_under_the_name_of_data(crafted):
    content = flatten({"posterior": {"x": (("chain", "draw", "d"), np.zeros((2, 40, 2)))}}).packed()
    record = crafted.write("data", content)
    crafted.root(lambda about: about.update(data={**record, "groups": ["posterior"]}))


@case
def more_draws_than_the_files_hold(crafted):
    def grow(about):
        about["commit"]["n_draws"] = 10**7
        for record in about["commit"]["columns"]["draws/trace"].values():
            row = np.dtype(record["dtype"]).itemsize * int(np.prod(record["shape"]))
            record["crcs"] = [0] * -(-(10**7) // max(2**18 // row, 16))

    crafted.root(grow)


def stray(table: str, name: str | None) -> Callable[[Crafted], None]:
    """Add a table, or a column with the record of another one."""

    def add(about: dict[str, Any]) -> None:
        columns = about["commit"]["columns"]
        record = columns["draws/trace"]["log_density"]
        columns.setdefault(table, {})[name or "x"] = record

    return lambda crafted: crafted.root(add)


CASES |= {
    "a table above": stray("../../evil", None),
    "a table elsewhere": stray("/tmp/evil", None),
    "a column above": stray("draws/trace", "../../../../evil"),
    "a column elsewhere": stray("draws/trace", "/tmp/evil"),
    "a column named dots": stray("draws/trace", ".."),
}

for _name in ("position", "accepted", "log_density"):
    CASES[f"without {_name}"] = lambda crafted, name=_name: crafted.root(
        lambda about: about["commit"]["columns"]["draws/trace"].pop(name)
    )

for _name in (
    "draws",
    "draws/trace",
    "history",
    "warmup",
    "draws/trace/position/c",
    "draws/trace/position/c/0/0/0",
):
    CASES[f"link {_name}"] = lambda crafted, name=_name: crafted.linked(name)
for _name in (
    "zarr.json",
    "commit.json",
    "lock",
    ".zarr.json.partial",
    ".lock.partial",
    "sampler",
    "snapshot-0",
):
    CASES[f"link {_name}"] = lambda crafted, name=_name: crafted.linked(name)

if hasattr(os, "mkfifo"):
    for _name in (
        "zarr.json",
        "commit.json",
        "lock",
        "sampler",
        "history/value/c/0",
        "draws/trace/move/c/0/0",
    ):
        CASES[f"pipe {_name}"] = lambda crafted, name=_name: crafted.fifo(name)


@case
def snapshots_linked_to_a_folder(crafted):
    """A recorder once removed the subfolders of this one."""
    (crafted.outside / "subfolder").mkdir()
    (crafted.path / "snapshots").symlink_to(crafted.outside, target_is_directory=True)


@case
def both_copies_are_pipes(crafted):
    for name in ("zarr.json", "commit.json"):
        crafted.fifo(name)


@case
def a_root_of_a_terabyte(crafted):
    for name in ("zarr.json", "commit.json"):
        with (crafted.path / name).open("r+b") as file:
            file.truncate(2**40)


@case
def a_root_of_brackets(crafted):
    for name in ("zarr.json", "commit.json"):
        (crafted.path / name).write_text("[" * 10**6)


@case
def a_chunk_of_a_terabyte(crafted):
    with (crafted.path / "draws/trace/position/c/0/0/0").open("r+b") as file:
        file.truncate(2**40)


@case
def a_chunk_that_is_another_file(crafted):
    """Writing into it would change that file."""
    chunk = crafted.path / "history/value/c/0"
    chunk.replace(crafted.outside / "linked")
    os.link(crafted.outside / "linked", chunk)


@case
def a_table_that_is_a_file(crafted):
    shutil.rmtree(crafted.path / "draws/trace")
    (crafted.path / "draws/trace").write_text("hello")
