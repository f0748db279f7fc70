import ast
import ctypes
import signal
import threading
from pathlib import Path

import pytest

import kmc
from kmc.interrupts import uninterrupted

TREES = {
    path: ast.parse(path.read_text(encoding="utf-8"))
    for path in Path(kmc.__file__).parent.rglob("*.py")
}


@pytest.fixture(autouse=True)
def handler():
    """Python's own, also where the tests run in the background of a shell, in which Ctrl-C is
    ignored.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def is_jitted(node):
    return isinstance(node, ast.FunctionDef) and any(
        "njit" in ast.unparse(each) for each in node.decorator_list
    )


def calls_outside(node, names):
    """Calls of functions with these names that Python makes outside of ``with uninterrupted()``."""
    if is_jitted(node) or (
        isinstance(node, ast.With) and "uninterrupted()" in ast.unparse(node.items[0])
    ):
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
        yield node
    for child in ast.iter_child_nodes(node):
        yield from calls_outside(child, names)


def test_jitted_functions_take_generators_in_the_context_only():
    nodes = [node for tree in TREES.values() for node in ast.walk(tree) if is_jitted(node)]
    names = {node.name for node in nodes if "rng" in {each.arg for each in node.args.args}}
    assert {"inner_chain", "_move"} <= names
    found = []
    for path, tree in TREES.items():
        # _names are those of their own module
        local = {node.name for node in ast.walk(tree) if is_jitted(node)}
        here = {name for name in names if name in local or not name.startswith("_")}
        found += [f"{path.name}, line {call.lineno}" for call in calls_outside(tree, here)]
    assert not found


def test_ctrl_c_waits_for_the_end():
    done = []
    with pytest.raises(KeyboardInterrupt):
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            done.append("work")
        done.append("more")
    assert done == ["work"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_pressed_again_does_not_wait():
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        signal.raise_signal(signal.SIGINT)
        done.append("work")
        signal.raise_signal(signal.SIGINT)
        done.append("more")
    assert done == ["work"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_handlers_of_others_are_called_or_left():
    called = []
    before = signal.signal(signal.SIGINT, lambda *_: called.append("handler"))
    try:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            called.append("work")
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with uninterrupted():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert called == ["work", "handler"]


def test_other_threads_leave_handlers_as_they_are():
    found = []

    def work():
        with uninterrupted():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]


def test_a_run_survives_ctrl_c_where_numba_unpacks_a_generator(monkeypatch):
    """Without the context the process dies here, of a segmentation fault."""
    cast, pressed = ctypes.cast, []

    def press(*arguments):
        if (
            threading.current_thread() is threading.main_thread()
            and evaluated > 400
            and not pressed
        ):
            pressed.append(True)
            signal.raise_signal(signal.SIGINT)
        return cast(*arguments)

    evaluated = 0

    def log_density(x):
        nonlocal evaluated
        evaluated += 1
        return -0.5 * float(x @ x)

    monkeypatch.setattr(ctypes, "cast", press)
    with pytest.warns(kmc.KmcWarning, match="interrupted"):
        idata = kmc.sample(
            log_density, dim=2, draws=300, max_evaluations=500, seed=1, progress=False
        )
    assert pressed and 400 <= idata.attrs["n_evaluations"] < 500
    assert idata.posterior.sizes["draw"] > 0
