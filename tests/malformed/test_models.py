"""Models, parameters and samplers with malformed arguments."""

from dataclasses import fields

import numpy as np
from hypothesis import given
from scipy import stats

import kmc
from kmc.model.evaluate import evaluate_point
from kmc.model.space import ParameterSpace
from tests.malformed.cases import Case, calls, finite, hold
from tests.malformed.examples import X, normal, the


def named_normal(parameters, rate):
    return -rate * parameters["sigma"] - 0.5 * float(np.sum(parameters["theta"] ** 2))


def is_a_model(model, arguments):
    assert isinstance(model, kmc.Model) and isinstance(model.dim, int) and model.dim >= 1
    shown = model.constrain(np.zeros((2, model.dim)))
    for name, values in shown.items():
        finite(values, (2, *(len(model.coords[dimension]) for dimension in model.dims[name])))
    if not model.vectorized:
        value, prior = (
            evaluate_point(model, np.zeros(model.dim)).value,
            model.declared_log_prior(np.zeros(model.dim)),
        )
        assert np.isfinite(value) or value == prior == -np.inf


def is_a_parameter(parameter, arguments):
    is_a_model(kmc.Model(lambda p: 0.0, parameters={"a": parameter}), arguments)


def draws_of_a_sampler(sampler, arguments):
    idata = kmc.sample(
        normal,
        dim=2,
        sampler=sampler,
        draws=3,
        chains=2,
        max_evaluations=40,
        seed=0,
        progress=False,
    )
    assert np.all(np.isfinite(idata.posterior["x"].values))


OPTIONS = {
    "model": {
        "on_error": "raise",
        "nonfinite": "reject",
        "vectorized": False,
        "noisy": False,
        "initial": X[:3],
        "kwargs": {},
    },
    **{
        sampler.name: {option.name: getattr(sampler, option.name) for option in fields(sampler)}
        for sampler in (kmc.KernelHMC(), kmc.ScoreHMC(kmc.scores.LiteKEF()))
    },
}
SIZES = frozenset({"shape", "size", "dim"})
ENDS = {"lower": ("upper",), "upper": ("lower",), "low": ("high",), "high": ("low",)}

MODELS = [
    Case(
        "Model",
        kmc.Model,
        {"log_density": normal, "dim": 2, "args": (), **OPTIONS["model"]},
        is_a_model,
        also={"args": ("log_density",), "kwargs": ("log_density",), "dim": ("initial",)},
        costly=SIZES,
    ),
    Case(
        "Model in a space",
        kmc.Model,
        {"log_density": normal, "space": ParameterSpace({"a": kmc.Real(2)}), "initial": X[:3]},
        is_a_model,
        also={"space": ("dim",)},
    ),
    Case(
        "Model of names",
        kmc.Model,
        {
            "log_density": named_normal,
            "parameters": {"sigma": kmc.Positive(), "theta": kmc.Real()},
            "dims": {"theta": ["school"]},
            "coords": {"school": ["A", "B"]},
            "initial": {"sigma": np.ones(2), "theta": np.zeros((2, 2))},
            "args": (1.0,),
            "kwargs": {},
            "space": None,
        },
        is_a_model,
        also={
            "args": ("log_density",),
            "kwargs": ("log_density",),
            "parameters": ("dims",),
            "coords": ("dims",),
            "dims": ("coords",),
        },
    ),
    *(
        Case(
            f"Model, {argument} of {name}",
            lambda given, argument=argument, name=name: kmc.Model(
                named_normal,
                **{
                    "parameters": {"sigma": kmc.Positive(), "theta": kmc.Real()},
                    "dims": {"theta": ["school"]},
                    "coords": {"school": ["A", "B"]},
                    "args": (1.0,),
                    argument: {name: given}
                    if argument != "parameters"
                    else {"sigma": kmc.Positive(), name: given},
                },
            ),
            {"given": valid},
            is_a_model,
            also={"given": (argument, "dims", "coords")},
        )
        for argument, name, valid in [
            ("parameters", "theta", kmc.Real()),
            ("dims", "theta", ["school"]),
            ("coords", "school", np.array([1.0, 2.0])),
        ]
    ),
    *(
        Case(cls.__name__, cls, arguments, is_a_parameter, ENDS, SIZES)
        for cls, arguments in [
            (kmc.Real, {"shape": (2, 3)}),
            (kmc.Positive, {"shape": 2}),
            (kmc.LowerBound, {"lower": 0.0, "shape": 2}),
            (kmc.UpperBound, {"upper": 0.0, "shape": 2}),
            (kmc.Interval, {"lower": 0.0, "upper": 1.0, "shape": 2}),
            (kmc.Simplex, {"size": 3, "shape": 2}),
            (kmc.Ordered, {"size": 3, "shape": 2}),
            (kmc.CorrelationCholesky, {"size": 3, "shape": 2}),
            (kmc.Circular, {"low": 0.0, "high": 1.0, "shape": 2}),
            (kmc.Angle, {"shape": 2}),
            (kmc.Prior, {"distribution": stats.gamma(2.0), "shape": 2}),
            (kmc.Normal, {"mean": 0.0, "sd": 1.0, "shape": 2}),
            (kmc.Uniform, {"low": 0.0, "high": 1.0, "shape": 2}),
            (kmc.Dirichlet, {"alpha": np.ones(3), "shape": 2}),
        ]
    ),
    *(
        Case(cls.__name__, cls, options | {"target_acceptance": 0.3}, draws_of_a_sampler)
        for cls, options in [
            (kmc.RandomWalkMetropolis, {"scale": np.ones(2)}),
            (kmc.AdaptiveMetropolis, {"adaptation": "freeze"}),
        ]
    ),
    Case("KernelHMC", kmc.KernelHMC, OPTIONS["kernel-hmc"], lambda *_: None),
    Case("ScoreHMC", kmc.ScoreHMC, OPTIONS["score-hmc"], lambda *_: None),
]


@the("models")
@given(calls(MODELS))
def test_models_and_samplers(call):
    hold(*call)
