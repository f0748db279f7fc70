"""A plugin whose package is not installed says what to install."""

import importlib
import sys

import pytest

pytestmark = pytest.mark.arviz


@pytest.mark.parametrize("name", ["bilby", "cobaya", "pints", "pypesto"])
def test_the_error_says_what_to_install(name, monkeypatch):
    for module in [each for each in sys.modules if each.split(".")[0] == name]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"kmc.plugins.{name}", raising=False)
    with pytest.raises(ImportError, match=f"pip install {name}"):
        importlib.import_module(f"kmc.plugins.{name}")
