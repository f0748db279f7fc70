"""Every invalid argument gives an error with its name, its value and what is expected."""

import re

import numpy as np
import pytest

import kmc
from kmc.checks import as_count, as_number
from kmc.kernel_hmc.sampler import KernelHMC

# the runs that start are very short
pytestmark = pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
NAN, INF = np.nan, np.inf


def log_density(x):
    return -0.5 * float(x @ x)


def nowhere(x):
    return -INF


def sample(target=log_density, **options):
    defaults = {"dim": 2, "draws": 20, "sampler": "random-walk", "progress": False, "seed": 0}
    return kmc.sample(target, **(defaults | options))


START = np.zeros((4, 2))
LATE_NAN = START.copy()
LATE_NAN[2, 1] = NAN

# argument, value, error, and pieces of the message besides the argument's name
BAD = [
    ("initial", START[0], ValueError, ["(2,)", "expected (4, 2)"]),
    ("initial", START[:3], ValueError, ["(3, 2)", "expected (4, 2)"]),
    ("initial", LATE_NAN, ValueError, ["[2]=[0.0, nan]", "expected finite"]),
    ("initial", "start", TypeError, ["'start'", "numbers of shape (4, 2)"]),
    ("initial", [[0, 0], [1]], TypeError, ["[[0, 0], [1]]", "numbers of shape (4, 2)"]),
    (
        "sampler",
        "kernel_hmc",
        ValueError,
        [
            "'kernel-hmc'",
            "'adaptive-metropolis'",
            "'kameleon'",
            "kmc.KernelHMC()",
            "did you mean 'kernel-hmc'?",
        ],
    ),
    ("sampler", "slice", ValueError, ["'slice'", "'random-walk'", "'tempered'", "kmc.KernelHMC()"]),
    ("sampler", None, TypeError, ["None", "kmc.KernelHMC()"]),
    ("sampler", KernelHMC, TypeError, ["KernelHMC", "expected"]),
    ("dim", None, ValueError, ["None", "dim=3"]),
    ("dim", 0, ValueError, ["0", "at least 1"]),
    ("dim", True, TypeError, ["True", "an integer of at least 1"]),
    ("draws", 0, ValueError, ["0", "at least 1"]),
    ("draws", True, TypeError, ["True", "whole number"]),
    ("draws", None, ValueError, ["None", "max_evaluations=None", "at least one"]),
    ("warmup", -1, ValueError, ["-1", "at least 0"]),
    ("chains", 0, ValueError, ["0", "at least 1"]),
    ("chains", None, TypeError, ["None", "whole number"]),
    ("independent_runs", 0, ValueError, ["0", "at least 1"]),
    ("independent_runs", 3, ValueError, ["3", "divide", "chains=", "such as"]),
    ("max_evaluations", 0, ValueError, ["0", "at least 1"]),
    ("max_evaluations", 7, ValueError, ["7", "too few", "8 are needed"]),
    ("seed", -1, (TypeError, ValueError), ["-1", "an int >= 0"]),
    ("seed", True, TypeError, ["True", "Generator"]),
    ("seed", np.random.RandomState(0), TypeError, ["RandomState", "Generator"]),
    ("callback", 3, TypeError, ["3", "callable"]),
    ("target", 3, TypeError, ["3", "callable", "kmc.Model"]),
]


def name_of(case):
    return f"{case[0]}-{re.sub(r'[^a-zA-Z0-9.-]+', '_', str(case[1]))[:24]}"


def check(caught, name, pieces):
    message = str(caught.value)
    assert re.search(rf"\b{name}\b", message), message
    for piece in pieces:
        assert piece in message, f"{piece!r} is not in: {message}"


@pytest.mark.parametrize(("name", "value", "error", "pieces"), BAD, ids=map(name_of, BAD))
def test_a_bad_argument_is_named(name, value, error, pieces):
    calls = []

    def target(x):
        calls.append(x)
        return log_density(x)

    with pytest.raises(error) as caught:
        sample(**({"target": target} | {name: value}))
    check(caught, name, pieces)
    assert not calls  # nothing was evaluated


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_start_points_are_real():
    with pytest.raises(TypeError, match="initial"):
        sample(initial=1j + START)


def test_the_least_budget():
    for chains in (1, 4):
        with pytest.raises(ValueError, match=f"max_evaluations={2 * chains - 1}"):
            sample(chains=chains, max_evaluations=2 * chains - 1)
        sample(chains=chains, max_evaluations=2 * chains, draws=None, warmup=0)
    with pytest.raises(ValueError, match="max_evaluations=19"):
        sample(initial=np.zeros((10, 2)), max_evaluations=19)


@pytest.mark.parametrize("sampler", ["kernel-hmc", "adaptive-metropolis", "random-walk"])
def test_a_density_of_zero_at_every_start(sampler):
    with pytest.raises(
        ValueError, match=r"initial=\[\[(.|\n)*-inf at every start point; pass start points"
    ):
        sample(nowhere, sampler=sampler, initial=START)


@pytest.mark.parametrize(("options", "tried"), [({}, "800"), ({"max_evaluations": 20}, "15")])
def test_a_density_of_zero_everywhere(options, tried):
    with pytest.raises(
        ValueError, match=rf"^the log-density is -inf at each of {tried} start points"
    ) as caught:
        sample(nowhere, **options)
    message = str(caught.value)
    for word in (
        "uniform on [-2, 2]^2",
        "1e-6 to 1e6",
        "kmc.Interval(0, 10)",
        "initial=",
        "kmc.find_start",
    ):
        assert word in message
    assert "[[" not in message  # no array that the user did not pass


def test_a_model_with_another_dimension():
    model = kmc.Model(log_density, dim=3)
    with pytest.raises(ValueError, match=r"dim=2 contradicts the model's dim=3"):
        sample(model, dim=2)
    assert sample(model, dim=3)["posterior"]["x"].shape[-1] == 3
    assert sample(model, dim=None)["posterior"]["x"].shape[-1] == 3


# Options of the samplers

OPTIONS = [
    (kmc.KernelHMC, "learning_share", 1.1, ["[0, 1]"]),
    (kmc.KernelHMC, "learning_share", "half", ["[0, 1]"]),
    (kmc.KernelHMC, "burn_in", -1, ["whole number", "at least"]),
    (kmc.KernelHMC, "archive_probability", 0, ["(0, 1]"]),
    (kmc.KernelHMC, "tempered_probability", -0.1, ["[0, 1]"]),
    (kmc.KernelHMC, "mode_jump_probability", -1, ["[0, 1]"]),
    (kmc.AdaptiveMetropolis, "adaptation", "sometimes", ["'freeze'", "'vanishing'"]),
    (kmc.AdaptiveMetropolis, "target_acceptance", 0, ["(0, 1)"]),
    (kmc.AdaptiveMetropolis, "pooled", "yes", ["True or False"]),
    (kmc.AdaptiveMetropolis, "moves", "snooker", ["tuple of distinct names", "'independence'"]),
    (kmc.AdaptiveMetropolis, "max_archive", 3, ["whole number", "at least"]),
    (kmc.RandomWalkMetropolis, "target_acceptance", 1.0, ["(0, 1)"]),
    (kmc.RandomWalkMetropolis, "scale", 0, ["positive standard deviations"]),
    (kmc.RandomWalkMetropolis, "scale", "wide", ["positive standard deviations"]),
    (kmc.RandomWalkMetropolis, "scale", np.array([1.0, -1.0]), ["positive standard deviations"]),
]


@pytest.mark.parametrize(("sampler", "name", "value", "pieces"), OPTIONS)
def test_a_bad_option_is_named(sampler, name, value, pieces):
    with pytest.raises((TypeError, ValueError)) as caught:
        sampler(**{name: value})
    check(caught, name, [f"{name}={value!r}", "expected", *pieces])


@pytest.mark.parametrize("scale", [np.ones(3), np.ones((2, 2)), np.ones((1, 2))])
def test_a_scale_of_the_wrong_shape(scale):
    message = f"scale has shape {re.escape(str(scale.shape))}: expected a number or shape \\(2,\\)"
    with pytest.raises(ValueError, match=message):
        sample(sampler=kmc.RandomWalkMetropolis(scale=scale))


# Valid arguments


def test_a_model_brings_its_start_points():
    model = kmc.Model(log_density, 2, initial=START + 0.5)
    run = kmc.iterate(model, chains=4, sampler="random-walk")
    np.testing.assert_array_equal(run._run.request.initial, START + 0.5)
    run = kmc.iterate(model, initial=START, chains=4, sampler="random-walk")
    np.testing.assert_array_equal(run._run.request.initial, START)
    with pytest.raises(ValueError, match=r"initial has shape \(4, 2\): expected \(5, 2\)"):
        kmc.iterate(model, chains=5, sampler="random-walk")


def test_numbers_of_numpy_are_numbers():
    assert as_number("draws", np.int64(3), 1) == 3
    assert as_count("draws", None, 1) is None
    idata = sample(
        draws=np.int32(3), chains=np.uint8(2), warmup=np.int16(4), max_evaluations=np.int64(500)
    )
    assert idata["posterior"]["x"].shape == (2, 3, 2)


# Names that other samplers' arguments have


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tune": 500}, r"kmc.sample\(\) has no argument 'tune': use warmup="),
        ({"cores": 4}, "'cores': use executor="),
        ({"random_seed": 1}, "'random_seed': use seed="),
        ({"nwalkers": 32}, "'nwalkers': use chains="),
        ({"args": (1, 2)}, r"'args': use .*lambda x: f\(x, \*args\)"),
        ({"bounds": [(0, 1)]}, "'bounds': use .*Interval"),
        ({"vectorize": True}, "'vectorize': use .*vectorized=True"),
        ({"target_accept": 0.9}, "'target_accept': leave it out"),
        ({"drws": 10}, "did you mean draws="),
        ({"zzz": 10}, "expected one of target, dim, initial, .*max_time"),
    ],
)
def test_they_are_refused_with_ours(options, said):
    with pytest.raises(TypeError, match=said):
        kmc.sample(log_density, dim=2, **options)


def test_iterate_and_extend_do_so_too():
    with pytest.raises(TypeError, match=r"kmc.iterate\(\) .*'tune': use warmup="):
        kmc.iterate(log_density, dim=2, tune=500)
    with pytest.raises(TypeError, match=r"kmc.extend\(\) .*'cores': use executor="):
        kmc.extend("no.zarr", cores=2)
    with pytest.raises(TypeError, match=r"kmc.extend\(\) .*'tune': expected one of result, draws"):
        kmc.extend("no.zarr", tune=2)
