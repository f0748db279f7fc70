"""Every public name has a type that a strict type checker can use; ``Any`` only where anything goes."""

import re
import types
from pathlib import Path

import pytest

import kmc

CONFIG = Path(__file__).parents[2] / "pyproject.toml"

ANYTHING = {
    # results are InferenceData or a DataTree, by the version of ArviZ; tables and axes are of untyped packages
    *("sample", "extend", "load", "predictive", "resample", "summary", "simulation_based_calibration"),
    *("plot_implied_timescales", "plot_validation"),
    *("plot_acceptance", "plot_evidence", "plot_surrogate"),
}


def names():
    for name in kmc.__all__:
        thing = getattr(kmc, name)
        yield name
        if isinstance(thing, types.ModuleType):
            yield from (f"{name}.{part}" for part in thing.__all__)


NAMES = list(names())


def returned(said):
    """What the revealed type of a function or a class gives when it is called."""
    return said.rpartition(" -> ")[2]


@pytest.mark.slow
def test_every_public_name_is_typed(tmp_path, cache):
    api = pytest.importorskip("mypy.api")
    program = tmp_path / "uses.py"
    program.write_text("import kmc\n\n" + "".join(f"reveal_type(kmc.{name})\n" for name in NAMES))
    options = ["--strict", "--follow-imports=silent", f"--config-file={CONFIG}", f"--cache-dir={cache}"]
    said, failed, _ = api.run([str(program), *options])
    revealed = re.findall(r'Revealed type is "(.*)"$', said, re.M)
    assert len(revealed) == len(NAMES) and ": error:" not in said, said + failed
    types_ = dict(zip(NAMES, revealed, strict=True))
    assert {name for name, said in types_.items() if said == "Any"} == set()
    assert {name for name, said in types_.items() if returned(said) == "Any"} == ANYTHING
