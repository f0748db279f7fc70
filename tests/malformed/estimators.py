"""Estimators as cases."""

from tests.malformed.cases import Case

REMEDIES = ("regularization", "the basis")  # messages that say what to do about the other
ABOUT_X = ("the data", "samples")
FAR = ("the basis", "kernel")  # where landmarks are too far away to tell anything of the data
FITTED = ("X", "y", "values", "weights", "gradients")


def fit(cls):
    def call(**arguments):
        data = {name: arguments.pop(name) for name in FITTED if name in arguments}
        return cls(**arguments).fit(data.pop("X"), **data)

    return call


def estimator(cls, check, data, costly=(), also=None, **changed):
    options = cls().get_params() | changed
    if "random_state" in options:
        options["random_state"] = 0
    also = {
        "X": ABOUT_X,
        "values": ("y",),
        "value_weight": REMEDIES,
        "bandwidth": REMEDIES,
        "landmarks": FAR,
        **(also or {}),
    }
    return Case(cls.__name__, fit(cls), options | data, check, also=also, costly=frozenset(costly))
