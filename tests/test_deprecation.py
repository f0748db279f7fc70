"""Every old name works for one release, and warns."""

import importlib

import pytest

MODULES = [
    ("kmc.mcmc", "Problem", "SamplerSetup"),
    ("kmc.mcmc", "Process", "SamplerState"),
    ("kmc.mcmc", "Sweep", "Step"),
    ("kmc.mcmc.base", "Problem", "SamplerSetup"),
]


@pytest.mark.parametrize(("module", "old", "new"), MODULES)
def test_an_old_name_is_the_new_thing(module, old, new):
    home = importlib.import_module(module)
    with pytest.warns(DeprecationWarning, match=rf"{module}.{old} is now {module}.{new}") as caught:
        assert getattr(home, old) is getattr(home, new)
    assert caught[0].filename == __file__


def test_other_names_are_missing_as_ever():
    with pytest.raises(AttributeError, match=r"module 'kmc.mcmc' has no attribute 'Sweeep'"):
        _ = importlib.import_module("kmc.mcmc").Sweeep
