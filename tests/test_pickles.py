"""Public objects survive pickle and deepcopy with the same results.

Kernels, estimators and parameters have tests of that among those of their kind.
"""

import ast
import copy
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import kmc
from kmc import bases, diagnostics, forms, kernels, scores, spectral
from kmc.pickles import Untrusted, load_pickle
from tests.run.store.hostile import Payload

RNG = np.random.default_rng(3)
X = RNG.standard_normal((30, 2))
Y = -0.5 * np.sum(X**2, axis=1)
POINTS = RNG.standard_normal((4, 2))
PATH = np.cumsum(RNG.standard_normal((90, 2)), axis=0) * 0.2

COPIES = {
    "pickle": lambda thing: pickle.loads(pickle.dumps(thing)),
    "deepcopy": copy.deepcopy,
}

pytestmark = pytest.mark.arviz


# What two of a kind are compared by


def draws(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        idata = kmc.sample(
            model, sampler="random-walk", draws=5, warmup=4, chains=2, seed=1, progress=False
        )
    return [idata.posterior[name].values for name in idata.posterior.data_vars]


def draws_of_it(sampler):
    target = kmc.Model(normal, dim=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        idata = kmc.sample(
            target, sampler=sampler, draws=4, chains=2, max_evaluations=60, seed=1, progress=False
        )
    return idata.posterior["x"].values


def an_asking_state():
    state = kmc.AdaptiveMetropolis().start(initial=np.eye(4, 2), draws=20, warmup=2, seed=1)
    for _ in range(5):
        state.tell([normal(x) for x in state.ask()])
    return state


def draws_of_a_parameter(parameter):
    return draws(kmc.Model(flat_normal, parameters={"a": parameter}))


def basis_values(basis):
    return basis.values(POINTS)


def fields_of(thing):
    return [
        getattr(thing, name)
        for name in getattr(thing, "_fields", None) or thing.__dataclass_fields__
    ]


def of_an_error(error):
    return (
        type(error),
        str(error),
        error.position,
        error.parameters,
        getattr(error, "idata", None) is None,
    )


# The cases: of a public class, one or more instances, and what must be the same


def normal(x):
    return -0.5 * float(np.sum(x * x))


def flat_normal(parameters):
    return -0.5 * float(np.sum(np.square(parameters["a"])))


def named(parameters, rate):
    return -rate * parameters["sigma"] - 0.5 * float(np.sum(parameters["theta"] ** 2))


def square(x):
    return x**2


NAMED = kmc.Model(
    named,
    parameters={"sigma": kmc.Positive(), "theta": kmc.Real()},
    dims={"theta": ["school"]},
    coords={"school": ["A", "B"]},
    args=(2.0,),
)


def an_error():
    error = kmc.EvaluationError("log_density returned NaN", np.zeros(2), {"a": 0.0})
    error.add_note("on a worker")
    return error


GAUSSIAN = kernels.Gaussian(2.0)
SECTIONS = bases.KernelSections(GAUSSIAN, X[:5])


CASES = {
    # of kmc itself
    kmc.AdaptiveMetropolis: lambda: ([kmc.AdaptiveMetropolis(adaptation="freeze")], draws_of_it),
    kmc.AskTell: lambda: ([an_asking_state()], lambda state: (state.ask(), state.positions)),
    kmc.Tempered: lambda: ([kmc.Tempered(temperatures=(1, 3))], draws_of_it),
    kmc.Model: lambda: (
        [kmc.Model(normal, dim=2), kmc.Model(normal, dim=2, initial=X, noisy=True), NAMED],
        draws,
    ),
    kmc.Simplex: lambda: ([kmc.Simplex(3)], draws_of_a_parameter),
    kmc.Circular: lambda: ([kmc.Circular(0.0, 2.0)], draws_of_a_parameter),
    kmc.Prior: lambda: (
        [kmc.Prior(stats.gamma(2.0)), kmc.Prior(stats.dirichlet([1.0, 2.0]))],
        draws_of_a_parameter,
    ),
    kmc.Dirichlet: lambda: ([kmc.Dirichlet([1.0, 2.0])], draws_of_a_parameter),
    kmc.EvaluationError: lambda: ([an_error()], of_an_error),
    # bases
    bases.KernelSections: lambda: ([SECTIONS], basis_values),
    bases.KernelGradients: lambda: ([bases.KernelGradients(GAUSSIAN, X[:5], [0, 3])], basis_values),
    bases.KernelExpansion: lambda: (
        [bases.KernelExpansion(GAUSSIAN, X[:5], sections=Y[:5])],
        basis_values,
    ),
    bases.FourierFeatures: lambda: ([bases.FourierFeatures.draw(GAUSSIAN, 6, 2, 0)], basis_values),
    bases.Monomials: lambda: ([bases.Monomials(3, 2, X[0])], basis_values),
    bases.UserFunctions: lambda: ([bases.UserFunctions(square, size=2)], basis_values),
    bases.Whitened: lambda: ([bases.Whitened(SECTIONS, np.eye(5)[:, :3])], basis_values),
    bases.Contraction: lambda: ([bases.Contraction(SECTIONS, Y[:5])], basis_values),
    bases.BaseJitState: lambda: ([scores.GaussianScore().fit(X).jit_state()], fields_of),
    # forms
    forms.Forms: lambda: ([forms.accumulate(SECTIONS, X, ("mass", "dirichlet"))], fields_of),
    forms.Lagged: lambda: (
        [forms.accumulate(SECTIONS, PATH, ("lagged",), lagtime=1).get("lagged")],
        fields_of,
    ),
    # what functions return
    spectral.Decomposition: lambda: (
        [spectral.galerkin(spectral.DirichletForm(), bases.Monomials(2, 2), None, X)],
        lambda found: (found.eigenvalues_, found.left.values(POINTS)),
    ),
    spectral.KernelClusters: lambda: (
        [spectral.kernel_kmeans(X, 2, random_state=0)],
        lambda found: found.predict(POINTS),
    ),
    diagnostics.ControlFunctional: lambda: (
        [diagnostics.control_functional(PATH, lambda x: x[:, 0], lambda x: -x)],
        fields_of,
    ),
    diagnostics.SteinDiscrepancy: lambda: (
        [diagnostics.kernel_stein_discrepancy(PATH, lambda x: -x, random_state=0)],
        fields_of,
    ),
}


def same(one, other):
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if hasattr(one, "__dataclass_fields__"):
        return same(fields_of(one), fields_of(other))
    return one == other or (one != one and other != other)


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("cls", CASES, ids=lambda cls: cls.__name__)
def test_copies_are_the_same(cls, way):
    things, look = CASES[cls]()
    for thing in things:
        before = look(thing)
        again = COPIES[way](thing)
        assert type(again) is type(thing)
        assert same(look(again), before)


def test_an_error_keeps_what_it_knows():
    """Its position, parameters and draws; a result travels with it, its cause and notes as pickle
    has it.
    """

    def fails(x):
        return np.nan if x[0] > 1.0 else normal(x)

    model = kmc.Model(fails, dim=2, nonfinite="raise")
    with pytest.raises(kmc.EvaluationError) as caught:
        kmc.sample(
            model, initial=X[X[:, 0] < 0.9][:4], sampler="random-walk", seed=0, progress=False
        )
    again = pickle.loads(pickle.dumps(caught.value))
    np.testing.assert_array_equal(again.position, caught.value.position)
    assert again.position[0] > 1.0 and str(again) == str(caught.value)
    np.testing.assert_array_equal(again.idata.posterior["x"], caught.value.idata.posterior["x"])


READING = {"load", "loads", "Unpickler", "open"}
PICKLING = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "_pickle"}


def loads_pickles(source):
    """Lines of a module that load pickles, or could."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found = node.value.id in PICKLING and node.attr in READING
        elif isinstance(node, ast.ImportFrom):
            found = node.module in PICKLING and any(
                alias.name in {*READING, "*"} for alias in node.names
            )
        elif isinstance(node, ast.Import):
            found = any(alias.name in PICKLING and alias.asname for alias in node.names)
        else:
            found = isinstance(node, ast.keyword) and node.arg == "allow_pickle"
            found = found and not (
                isinstance(node.value, ast.Constant) and node.value.value is False
            )
        if found:
            yield node.lineno if hasattr(node, "lineno") else 0


@pytest.mark.parametrize(
    "line",
    [
        "pickle.loads(b)",
        "import cloudpickle\ncloudpickle.load(f)",
        "from pickle import loads",
        "import pickle as p",
        "np.load(f, allow_pickle=True)",
        "np.load(f, allow_pickle=trust)",
        "class A(pickle.Unpickler): pass",
    ],
)
def test_the_check_below_sees(line):
    assert list(loads_pickles(line))


def test_pickles_are_loaded_in_one_place():
    root = Path(kmc.errors.__file__).parent
    found = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if list(loads_pickles(path.read_text()))
    }
    assert found == {"pickles.py"}


@pytest.mark.parametrize("trust", [False, None, 1, "yes"])
def test_nothing_is_loaded_without_trust(tmp_path, trust):
    content = pickle.dumps(Payload(tmp_path / "executed"))
    with pytest.raises(Untrusted, match="can run any code"):
        load_pickle(content, trust=trust)
    assert not (tmp_path / "executed").exists()
    load_pickle(content, trust=True)
    assert (tmp_path / "executed").exists()
