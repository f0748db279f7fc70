"""Two thousand calls with malformed input: an error of ours that names the argument, or a right result."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kmc
from kmc import bases, kernels, scores, spectral
from kmc.errors import EvaluationError
from kmc.regression import HermiteRegression
from kmc.surrogates import FitOptions
from kmc.targets.evaluate import evaluate_point
from kmc.targets.space import ParameterSpace
from tests.malformed import Case, calls, corrupted, finite, hold, in_time

pytestmark = pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning", "ignore::PendingDeprecationWarning")

EXAMPLES = {"models": 320, "samples": 320, "returned": 260, "kernels": 200, "bases": 200, "scores": 380, "others": 320}


def the(part):
    """As many examples as that part has, the same ones each time."""
    return settings(
        max_examples=EXAMPLES[part],
        deadline=None,  # a watchdog of our own looks after every call
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def test_the_number_of_examples():
    assert sum(EXAMPLES.values()) == 2000


RNG = np.random.default_rng(5)
X = RNG.standard_normal((24, 2))
Y = -0.5 * np.sum(X**2, axis=1)
PATH = np.cumsum(0.5 * RNG.standard_normal((80, 2)), axis=0) * 0.3
WEIGHTS = RNG.uniform(0.5, 1.5, len(X))
POINTS = RNG.standard_normal((3, 2))


# Models


def normal(x):
    return -0.5 * float(np.sum(x * x))


def named_normal(parameters, rate):
    return -rate * parameters["sigma"] - 0.5 * float(np.sum(parameters["theta"] ** 2))


def is_a_model(model, arguments):
    assert isinstance(model, kmc.Model) and isinstance(model.dim, int) and model.dim >= 1
    shown = model.constrain(np.zeros((2, model.dim)))
    for name, values in shown.items():
        finite(values, (2, *(len(model.coords[dimension]) for dimension in model.dims[name])))
    if not model.vectorized:
        assert np.isfinite(evaluate_point(model, np.zeros(model.dim)).value)


def is_a_parameter(parameter, arguments):
    is_a_model(kmc.Model(lambda p: 0.0, parameters={"a": parameter}), arguments)


def draws_of_a_sampler(sampler, arguments):
    idata = kmc.sample(normal, dim=2, sampler=sampler, draws=3, chains=2, max_evaluations=40, seed=0, progress=False)
    assert np.all(np.isfinite(idata.posterior["x"].values))


OPTIONS = {
    "model": {"nonfinite": "raise", "vectorized": False, "noisy": False, "initial": X[:3], "kwargs": {}},
    "kernel-hmc": {option.name: getattr(kmc.KernelHMC(), option.name) for option in fields(kmc.KernelHMC)},
}
SIZES = frozenset({"shape", "size", "dim"})

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
                    argument: {name: given} if argument != "parameters" else {"sigma": kmc.Positive(), name: given},
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
        Case(cls.__name__, cls, arguments, is_a_parameter, {"lower": ("upper",), "upper": ("lower",)}, SIZES)
        for cls, arguments in [
            (kmc.Real, {"shape": (2, 3)}),
            (kmc.Positive, {"shape": 2}),
            (kmc.LowerBound, {"lower": 0.0, "shape": 2}),
            (kmc.UpperBound, {"upper": 0.0, "shape": 2}),
            (kmc.Interval, {"lower": 0.0, "upper": 1.0, "shape": 2}),
            (kmc.Simplex, {"size": 3, "shape": 2}),
            (kmc.Ordered, {"size": 3, "shape": 2}),
            (kmc.CorrelationCholesky, {"size": 3, "shape": 2}),
        ]
    ),
    *(
        Case(cls.__name__, cls, options | {"target_acceptance": 0.3}, draws_of_a_sampler)
        for cls, options in [
            (kmc.RandomWalkMetropolis, {"scale": np.ones(2)}),
            (kmc.AdaptiveMetropolis, {"adaptation": "freeze"}),
        ]
    ),
    Case("KernelHMC", kmc.KernelHMC, OPTIONS["kernel-hmc"], lambda *_: None, also={"adaptation": ("surrogate",)}),
    Case(
        "FitOptions",
        FitOptions,
        {option.name: getattr(FitOptions(), option.name) for option in fields(FitOptions)},
        lambda *_: None,
    ),
]


@the("models")
@given(calls(MODELS))
def test_models_and_samplers(call):
    hold(*call)


# kmc.sample


class Pool:
    """A pool whose ``map`` is not one."""

    def __init__(self, answer):
        self._answer = answer

    def map(self, function, iterable):
        return self._answer(function, list(iterable))

    def __repr__(self):
        return "Pool()"


POOLS = [
    Pool(answer)
    for answer in (
        lambda f, items: None,
        lambda f, items: [],
        lambda f, items: [f(item) for item in items][:-1],
        lambda f, items: [0.0] * len(items),
        lambda f, items: ["a"] * len(items),
        lambda f, items: [None] * len(items),
        lambda f, items: 1 / 0,
        lambda f, items: 3,
        lambda f, items: [f(item) for item in items],
    )
]


def is_a_run(idata, arguments):
    x = idata.posterior["x"].values
    assert x.shape[0] == arguments["chains"] and x.shape[2] == 2
    assert arguments["draws"] is None or x.shape[1] <= arguments["draws"]
    finite(x, x.shape)
    finite(idata.sample_stats["lp"].values, x.shape[:2])
    if arguments["max_evaluations"] is not None:
        assert idata.posterior.attrs["n_evaluations"] <= arguments["max_evaluations"]


RUN = Case(
    "sample",
    kmc.sample,
    {
        "target": normal,
        "dim": 2,
        "initial": X[:2],
        "sampler": "random-walk",
        "draws": 5,
        "warmup": 4,
        "chains": 2,
        "max_evaluations": 30,
        "seed": 1,
        "progress": False,
        "callback": lambda progress: None,
        "save_warmup": False,
        "replicas": 1,
        "executor": None,
    },
    is_a_run,
    also={
        "target": ("log_density",),
        "dim": ("initial",),
        "chains": ("initial", "max_evaluations"),
        "replicas": ("chains",),
        "executor": ("workers",),
    },
    costly=frozenset({"dim"}),
)


@st.composite
def runs(draw):
    case, argument, value = draw(calls([RUN]))
    if argument == "executor":
        if isinstance(value, (int, np.integer)) and value > 0:
            value = draw(st.sampled_from(POOLS))  # and no processes
    elif argument == "max_evaluations" and value is None:
        value = 4
    elif argument == "callback" and draw(st.booleans()):
        returned = value
        value = lambda progress: returned  # noqa: E731
    return case, argument, value


@the("samples")
@given(runs())
def test_arguments_of_sample(call):
    hold(*call)


# Targets that return or do something wrong


class Odd:
    """A log-density that is a normal one for some calls and then goes wrong, once or for good."""

    def __init__(self, returned, good, once, vectorized=False):
        self.returned, self.good, self.once, self.vectorized, self.calls = returned, good, once, vectorized, 0

    def __repr__(self):
        return f"Odd({self.returned!r}, good={self.good}, once={self.once}, vectorized={self.vectorized})"

    def __call__(self, x):
        self.calls += 1
        if self.calls == self.good + 1 or (self.calls > self.good and not self.once):
            if isinstance(self.returned, BaseException):
                raise self.returned
            return self.returned(x) if callable(self.returned) else self.returned
        return -0.5 * np.sum(x * x, axis=-1)


def spoil(x):
    x[...] = np.nan
    return -1.0


def with_blob(name, blob):
    return -1.0, {name: blob}


class Strange(Exception):
    def __str__(self):
        raise RuntimeError("no words")


RETURNED = st.one_of(
    corrupted(-1.0),
    st.sampled_from(
        [
            *(-np.inf, -1e308, 1e308, np.float64(-1.0), np.longdouble(-1), np.array(-1.0), np.array([-1.0])),
            *(lambda x: x, lambda x: -x, lambda x: x[0], lambda x: np.zeros(len(x)), lambda x: np.zeros((len(x), 1))),
            *(lambda x: np.full(len(x), np.nan), lambda x: (-1.0, {}), lambda x: (-1.0, None), lambda x: (-1.0, 2.0)),
            *(spoil, Strange(), ValueError("bad"), ZeroDivisionError(), StopIteration(3), MemoryError()),
            *(AssertionError(), Warning("no error"), np.linalg.LinAlgError("singular"), OSError(2, "none")),
        ]
    ),
    st.builds(with_blob, st.sampled_from(["a", "x", "chain", "", "a/b", 1]), corrupted(X)),
    st.builds(with_blob, st.just("a"), corrupted(1.0)),
)
TARGETS = st.builds(Odd, RETURNED, good=st.integers(0, 9), once=st.booleans(), vectorized=st.booleans())


@the("returned")
@given(TARGETS, st.sampled_from(["raise", "reject"]))
def test_what_a_target_returns(target, nonfinite):
    model = kmc.Model(target, dim=2, vectorized=target.vectorized, nonfinite=nonfinite)
    try:
        with in_time():
            idata = kmc.sample(
                model, initial=X[:2], sampler="random-walk", draws=6, warmup=4, chains=2, seed=0, progress=False
            )
    except EvaluationError as error:
        assert "log_density" in str(error)
        finite(error.position, (2,) if error.position.ndim == 1 else (2, 2))
        assert np.all(np.isfinite(error.idata.posterior["x"].values))
    except ValueError as error:
        assert "initial" in str(error)  # the density is zero at every one of them
    else:
        finite(idata.posterior["x"].values, (2, 6, 2))
        finite(idata.sample_stats["lp"].values, (2, 6))


# Kernels and bases


def plain(x):
    return np.exp(-0.5 * x)


def steeper(x):
    return -0.5 * np.exp(-0.5 * x)


CROSS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])


def is_a_kernel(kernel, arguments):
    """Inner products of the points are zero or one."""
    values = kernels.partial(kernel, "k", CROSS, CROSS)
    assert values.shape == (3, 3) and not np.any(np.isnan(values))


SCALES = {"bandwidth": 2.0}
KERNELS = [
    *(
        Case(cls.__name__, cls, SCALES | more, is_a_kernel)
        for cls, more in [
            (kernels.Gaussian, {}),
            (kernels.Exponential, {}),
            (kernels.Matern52, {}),
            (kernels.Matern72, {}),
            (kernels.ExponentialDotProduct, {}),
            (kernels.InverseMultiquadric, {"exponent": 0.5}),
            (kernels.RationalQuadratic, {"alpha": 1.0}),
            (kernels.Polynomial, {"degree": 2, "offset": 1.0}),
            (kernels.RadialFunction, {"profiles": [plain, steeper], "differentiability": 2.0}),
            (kernels.DotProductFunction, {"profiles": [plain, steeper]}),
        ]
    ),
    Case("Sum", kernels.Sum, {"left": kernels.Gaussian(), "right": kernels.Matern52()}, is_a_kernel),
    Case("Product", kernels.Product, {"left": kernels.Gaussian(), "right": kernels.Matern52()}, is_a_kernel),
    Case("Scale", kernels.Scale, {"kernel": kernels.Gaussian(), "factor": 2.0}, is_a_kernel),
    Case("Metric", kernels.Metric, {"kernel": kernels.Gaussian(), "matrix": np.tri(2)}, is_a_kernel),
    Case(
        "kernel_of",
        kernels.kernel_of,
        {"kernel": "gaussian", "bandwidth": 1.0},
        is_a_kernel,
    ),
]


@the("kernels")
@given(calls(KERNELS))
def test_kernels(call):
    hold(*call)


def is_a_basis(basis, arguments):
    assert_no_nan(basis, (basis.size,))


def is_a_function(function, arguments):
    assert_no_nan(function, ())


def assert_no_nan(basis, shape):
    """At two points; numbers beyond all floats may well be infinite."""
    places = getattr(basis, "centres", getattr(basis, "frequencies", np.zeros((1, 2))))
    dim = places.shape[1]
    with np.errstate(all="ignore"):
        values = basis.values(np.linspace(-1.0, 1.0, 2 * dim).reshape(2, dim))
    assert values.shape == (2, *shape) and not np.any(np.isnan(values))


GAUSSIAN = kernels.Gaussian()
BASES = [
    Case("KernelSections", bases.KernelSections, {"kernel": GAUSSIAN, "centres": X[:4]}, is_a_basis),
    Case(
        "KernelGradients",
        bases.KernelGradients,
        {"kernel": GAUSSIAN, "centres": X[:4], "components": np.arange(3)},
        is_a_basis,
        also={"centres": ("components",)},
    ),
    Case(
        "KernelExpansion",
        bases.KernelExpansion,
        {"kernel": GAUSSIAN, "centres": X[:4], "sections": Y[:4], "gradients": X[4:8], "laplacians": Y[4:8]},
        is_a_function,
        also={"centres": ("sections", "gradients")},
    ),
    Case(
        "FourierFeatures",
        bases.FourierFeatures,
        {"frequencies": X[:4], "phases": Y[:4], "amplitudes": WEIGHTS[:4]},
        is_a_basis,
        also={"frequencies": ("phases",)},
    ),
    Case(
        "Monomials",
        bases.Monomials,
        {"degree": 2, "dim": 2, "centre": X[0], "scale": WEIGHTS[:2]},
        is_a_basis,
        also={"dim": ("centre",)},
        costly=frozenset({"degree", "dim"}),
    ),
    Case(
        "UserFunctions",
        bases.UserFunctions,
        {"values": lambda x: x**2, "size": 2},
        is_a_basis,
        also={"size": ("values",), "values": ("scalars", "arguments?")},
    ),
    Case(
        "Whitened",
        bases.Whitened,
        {"basis": bases.KernelSections(GAUSSIAN, X[:4]), "matrix": np.eye(4)[:, :3]},
        is_a_basis,
    ),
    Case(
        "Contraction",
        bases.Contraction,
        {"basis": bases.KernelSections(GAUSSIAN, X[:4]), "coefficients": Y[:4]},
        is_a_function,
        also={"basis": ("coefficients",)},
    ),
]


@the("bases")
@given(calls(BASES))
def test_bases(call):
    hold(*call)


# Estimators

REMEDIES = ("regularization", "the basis")  # messages that say what to do about the other
ABOUT_X = ("the data", "samples")
FITTED = ("X", "y", "values", "weights", "gradients")


def fit(cls):
    def call(**arguments):
        data = {name: arguments.pop(name) for name in FITTED if name in arguments}
        return cls(**arguments).fit(data.pop("X"), **data)

    return call


def is_a_density(estimator, arguments):
    x = POINTS[:, : estimator.n_features_in_]
    if x.shape[1] == estimator.n_features_in_:
        finite(estimator.gradient(x), x.shape)
        finite(estimator.laplacian(x), (3,))


def is_an_embedding(estimator, arguments):
    d = estimator.n_features_in_
    if d <= 2:
        found = np.asarray(estimator.transform(POINTS[:, :d]))
        finite(found, (3, found.shape[1]))
    if hasattr(estimator, "eigenvalues_"):
        finite(np.abs(estimator.eigenvalues_), estimator.eigenvalues_.shape)


def is_a_regression(estimator, arguments):
    x = POINTS[:, : estimator.n_features_in_]
    finite(estimator.predict(x), (3,))
    finite(estimator.gradient(x), x.shape)


def estimator(cls, check, data, costly=(), also=None, **changed):
    options = cls().get_params() | changed
    if "random_state" in options:
        options["random_state"] = 0
    also = {"X": ABOUT_X, "values": ("y",), "value_weight": REMEDIES, "bandwidth": REMEDIES, **(also or {})}
    return Case(cls.__name__, fit(cls), options | data, check, also=also, costly=frozenset(costly))


SAMPLES = {"X": X, "values": Y, "weights": WEIGHTS}
SMALL = {"regularization": 0.01, "n_basis": 5}
SCORES = [
    estimator(scores.GaussianScore, is_a_density, SAMPLES),
    estimator(scores.NystromKEF, is_a_density, SAMPLES, **SMALL, landmarks=X[:4], also={"X": (*ABOUT_X, "landmarks")}),
    estimator(scores.LiteKEF, is_a_density, SAMPLES, **SMALL),
    estimator(scores.FiniteKEF, is_a_density, SAMPLES, ["n_basis"], **SMALL),
    estimator(scores.FullKEF, is_a_density, SAMPLES, regularization=0.01),
    estimator(
        scores.DenoisingAutoencoder,
        is_a_density,
        SAMPLES,
        ["n_hidden", "max_iter", "n_corruptions"],
        n_hidden=3,
        max_iter=4,
        n_corruptions=2,
    ),
]


@the("scores")
@given(calls(SCORES))
def test_score_estimators(call):
    hold(*call)


def is_a_decomposition(found, arguments):
    finite(found.singular_values_, found.singular_values_.shape)
    finite(found.left.values(POINTS), (3, len(found.singular_values_)))


def is_a_clustering(found, arguments):
    assert found.labels.ndim == 1 and len(found.labels) > 1 and found.labels.dtype.kind == "i"
    assert np.isfinite(found.inertia)


TWO = {"n_components": 2}
FEW = TWO | {"n_basis": 12}
OTHERS = [
    estimator(
        spectral.DiffusionMap,
        is_an_embedding,
        {"X": X, "weights": WEIGHTS},
        ["n_basis"],
        **FEW,
        bandwidth=1.0,
        also={"normals": ("score",)},
    ),
    estimator(
        spectral.TransitionOperator,
        is_an_embedding,
        {"X": PATH, "weights": np.ones(len(PATH))},
        ["n_basis"],
        **FEW,
        bandwidth=1.0,
    ),
    estimator(spectral.GraphLaplacian, is_an_embedding, {"X": X}, **TWO),
    estimator(spectral.KernelJL, is_an_embedding, {"X": X}, ["n_components"], **FEW),
    estimator(spectral.KernelPCA, is_an_embedding, {"X": X}, **FEW),
    estimator(spectral.NystromEmbedding, is_an_embedding, {"X": X}, **FEW),
    estimator(
        HermiteRegression,
        is_a_regression,
        {"X": X, "y": Y, "gradients": -X, "weights": WEIGHTS},
        ["n_basis", "degree"],
        regularization=0.01,
        n_basis=5,
    ),
    Case(
        "galerkin",
        spectral.galerkin,
        {
            "form": spectral.DirichletForm(),
            "left": bases.Monomials(2, 2),
            "right": None,
            "X": X,
            "weights": WEIGHTS,
            "n_components": 2,
            "which": "smallest",
            "tolerance": 1e-8,
            "block": 100,
        },
        is_a_decomposition,
        also={"X": ABOUT_X, "form": ("arguments?",)},  # of a function of something else
    ),
    Case(
        "kernel_kmeans",
        spectral.kernel_kmeans,
        {"X": X, "n_clusters": 2, "embedding": "nystrom", "n_init": 2, "random_state": 0},
        is_a_clustering,
        also={"X": ABOUT_X},
        costly=frozenset({"n_init"}),
    ),
]


@the("others")
@given(calls(OTHERS))
def test_spectral_estimators_and_regression(call):
    hold(*call)
