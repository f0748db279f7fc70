"""What a user sees of an error: their own code, and as little of kmc as possible."""

import traceback
from pathlib import Path

import pytest

import kmc

HOME = Path(kmc.__file__).parent
OPTIONS = {"dim": 2, "sampler": "random-walk", "seed": 1}


def fails(x):
    return 1.0 / 0.0


def shown(error):
    """Functions in the traceback of an error that a notebook shows, but for those of the last
    frame.
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return [
        frame.f_code.co_name
        for frame in frames[:-1]
        if Path(frame.f_code.co_filename).is_relative_to(HOME)
        and not frame.f_locals.get("__tracebackhide__")
    ]


def names(error):
    return [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)]


def test_an_error_of_the_log_density(capsys):
    with pytest.raises(kmc.EvaluationError) as caught:
        kmc.sample(fails, **OPTIONS)
    assert names(caught.value)[1:] == ["sample"]
    assert names(caught.value.__cause__) == ["fails"]
    assert len(traceback.format_exception(caught.value)) < 12
    assert "kmc: failed, 0/1,000 draws" in capsys.readouterr().err


def test_an_error_in_a_loop():
    with pytest.raises(kmc.EvaluationError) as caught:
        list(kmc.iterate(fails, **OPTIONS))
    assert names(caught.value)[1:] == [] and names(caught.value.__cause__) == ["fails"]


@pytest.mark.parametrize(
    ("target", "options"),
    [
        (lambda x: 0.0, {"draws": 0}),
        (lambda x: 0.0, {"tune": 5}),
        (lambda x: 0.0, {"callback": fails, "progress": False}),
        (lambda x: -float("inf"), {"progress": False}),
    ],
    ids=["argument", "unknown argument", "callback", "start"],
)
def test_frames_between_the_user_and_the_message_are_hidden(target, options):
    with pytest.raises((TypeError, ValueError, ZeroDivisionError)) as caught:
        kmc.sample(target, **OPTIONS, **options)
    assert shown(caught.value) == []
