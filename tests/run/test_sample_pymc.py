"""kmc.sample_pymc: arguments of pymc.sample reach kmc.sample, or are refused with an explanation."""

import inspect
import warnings

import numpy as np
import pytest

import kmc
from kmc.run import sample_pymc as module

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pm = pytest.importorskip("pymc")
    import pytensor

pytestmark = pytest.mark.filterwarnings(
    "ignore:PyTensor could not link to a BLAS", "ignore::FutureWarning", "ignore::kmc.errors.KmcWarning"
)

SMALL = {"draws": 30, "tune": 20, "chains": 2, "sampler": "random-walk", "progressbar": False}


@pytest.fixture(autouse=True)
def quick_compilation():
    """Everything that PyTensor compiles here, by PyMC too."""
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield


@pytest.fixture
def model():
    with pm.Model(coords={"group": ["a", "b"]}) as made:
        mu = pm.Normal("mu", 0.0, 1.0, dims="group")
        sigma = pm.HalfNormal("sigma", 1.0)
        pm.Normal("y", mu, sigma, observed=[0.3, -1.2], dims="group")
    return made


@pytest.fixture
def asked(monkeypatch):
    """The arguments that kmc.sample would get."""
    found = {}

    def sample(target, **arguments):
        found.update(arguments, target=target)

    sample.__signature__ = inspect.signature(kmc.sample)
    monkeypatch.setattr(module, "sample", sample)
    return found


def test_it_is_swapped_in(model):
    with model:
        idata = kmc.sample_pymc(**SMALL, random_seed=3, discard_tuned_samples=False)
    expected = kmc.sample(model, draws=30, warmup=20, chains=2, sampler="random-walk", seed=3, progress=False)
    for name in ("mu", "sigma"):
        np.testing.assert_array_equal(idata.posterior[name], expected.posterior[name])
    assert idata["posterior"]["mu"].dims == ("chain", "draw", "group") and idata["sample_stats"]["lp"].shape == (2, 30)
    assert idata["warmup_posterior"]["sigma"].shape == (2, 20)
    np.testing.assert_array_equal(idata["observed_data"]["y"], [0.3, -1.2])


def test_pymcs_own_functions_take_the_result(model):
    idata = kmc.sample_pymc(**SMALL, random_seed=3, model=model, idata_kwargs={"log_likelihood": True})
    assert idata["log_likelihood"]["y"].shape == (2, 30, 2)
    predicted = pm.sample_posterior_predictive(idata, model=model, random_seed=1, progressbar=False)
    assert predicted["posterior_predictive"]["y"].shape == (2, 30, 2)


def test_defaults(model, asked):
    kmc.sample_pymc(model=model)
    assert asked["target"].nonfinite == "reject" and isinstance(asked.pop("seed"), np.random.SeedSequence)
    del asked["target"]
    assert asked == {"draws": 1000, "warmup": None, "chains": 4, "progress": True, "save_warmup": False}


def test_arguments_reach_kmc(model, asked):
    given = {"chains": 3, "cores": 2, "random_seed": [1, 2, 3], "progressbar": "split", "max_evaluations": 700}
    kmc.sample_pymc(50, tune=10, model=model, nonfinite="raise", **given, compile_kwargs={"mode": "FAST_COMPILE"})
    assert asked["target"].nonfinite == "raise" and asked["seed"].entropy == [1, 2, 3]
    assert (asked["draws"], asked["warmup"], asked["chains"], asked["executor"]) == (50, 10, 3, 2)
    assert asked["progress"] is True and asked["max_evaluations"] == 700
    kmc.sample_pymc(model=model, cores=1, progressbar=False)
    assert asked["progress"] is False


@pytest.mark.parametrize("given", [{"sigma": 2.0}, [{"sigma": 2.0}, {"sigma_log__": np.log(2.0)}]])
def test_initial_values_are_jittered_as_pymc_does(model, asked, given):
    kmc.sample_pymc(model=model, chains=2, initvals=given, random_seed=1, progressbar=False)
    first = asked["initial"]
    from_center = first - [0.0, 0.0, np.log(2.0)]
    assert first.shape == (2, 3) and np.all(np.abs(from_center) <= 1) and len(np.unique(from_center)) == 6
    kmc.sample_pymc(model=model, chains=2, initvals=given, random_seed=1, progressbar=False)
    np.testing.assert_array_equal(asked["initial"], first)


def test_warnings_can_be_kept_off_the_screen(model):
    with warnings.catch_warnings():
        warnings.simplefilter("error", kmc.KmcWarning)
        idata = kmc.sample_pymc(**SMALL, random_seed=3, model=model, compute_convergence_checks=False)
    assert "effective draws" in idata.attrs["warnings"]


def test_every_argument_of_pymc_sample_is_taken_or_refused_in_words(model, asked):
    """A new version of PyMC may have more arguments: they are unknown until someone checks their meaning."""
    taken = inspect.signature(kmc.sample_pymc).parameters
    theirs = [name for name, one in inspect.signature(pm.sample).parameters.items() if one.kind != one.VAR_KEYWORD]
    assert [name for name in theirs if name not in taken and name not in module._UNSUPPORTED] == []
    for name in module._UNSUPPORTED:
        with pytest.raises(TypeError, match=f"^{name}=3: not supported by kmc.sample_pymc, .*"):
            kmc.sample_pymc(model=model, **{name: 3})


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"seed": 3}, TypeError, "^seed=3: .* use random_seed"),
        ({"warmup": 3}, TypeError, "^warmup=3: .* use tune"),
        ({"color": 3}, TypeError, "^color=3: neither pymc.sample nor kmc.sample has"),
        ({"cores": 2, "executor": 2}, TypeError, "^cores=2 and executor=2"),
        ({"cores": 0}, ValueError, "^cores=0: expected a whole number of at least 1"),
        ({"chains": 0}, ValueError, "^chains=0: expected a whole number of at least 1"),
        ({"tune": -1}, ValueError, "^tune=-1: expected a whole number of at least 0"),
        ({"draws": 2.5}, TypeError, "^draws=2.5: expected a whole number"),
        ({"random_seed": "a"}, TypeError, "^random_seed='a': expected None, an int"),
        ({"random_seed": [1, -1]}, TypeError, r"^random_seed=\[1, -1\]: expected whole numbers"),
        ({"progressbar": 3}, TypeError, "^progressbar=3: expected True or False"),
        ({"discard_tuned_samples": 3}, TypeError, "^discard_tuned_samples=3: expected True or False"),
        ({"compute_convergence_checks": 3}, TypeError, "^compute_convergence_checks=3"),
        ({"return_inferencedata": False}, ValueError, "^return_inferencedata=False: expected True"),
        ({"idata_kwargs": {"dims": {}}}, ValueError, "^idata_kwargs={'dims': {}}: expected"),
        ({"compile_kwargs": {"speed": 1}}, ValueError, "^compile_kwargs={'speed': 1}: expected"),
        ({"initvals": [{}]}, ValueError, r"^initvals=\[{}\]: expected a mapping, or one for each of chains=4"),
        ({"initvals": {"nu": 1.0}}, ValueError, "^initvals has 'nu', which is not a free variable: expected some of"),
        ({"nonfinite": "ignore"}, ValueError, "^nonfinite='ignore' is unknown"),
    ],
)
def test_what_cannot_be_meant_is_refused(model, arguments, error, message):
    with pytest.raises(error, match=message):
        kmc.sample_pymc(**({"model": model} | arguments))


def test_without_a_model():
    with pytest.raises(TypeError, match="model=None: call kmc.sample_pymc in the `with` block of a model"):
        kmc.sample_pymc()
