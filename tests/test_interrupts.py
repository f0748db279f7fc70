import ctypes
import signal
import threading

import pytest

import kmc
from kmc.interrupts import uninterrupted


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
        if threading.current_thread() is threading.main_thread() and evaluated > 400 and not pressed:
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
        idata = kmc.sample(log_density, dim=2, draws=300, max_evaluations=500, seed=1, progress=False)
    assert pressed and 400 <= idata.attrs["n_evaluations"] < 500
    assert idata.posterior.sizes["draw"] > 0
