"""How the user's estimator is copied, fitted and checked."""

import numpy as np
import pytest

from kmc.kernel_hmc.sampler import KernelHMC
from kmc.samplers.score_fitter import Fitter
from kmc.samplers.score_hmc import ScoreHMC
from kmc.scores import GaussianScore
from kmc.surrogate.coordinates.whitening import whiten_states

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 2)) * [1.0, 30.0] + [5.0, -7.0]
VALUES = RNG.standard_normal(60)
VISITS = RNG.integers(1, 5, 60)
WHITENING = whiten_states(X)


class Linear:
    """A gradient field as a user might write it, which records its inputs."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, values=None, weights=None):
        self.told_ = X, values, weights
        return self

    def gradient(self, X):
        return -X


class Bare:
    """No values, no weights."""

    def fit(self, X):
        self.told_ = (X,)

    def gradient(self, X):
        return -X


class Anything(Bare):
    def fit(self, X, **others):
        self.told_ = X, others.get("values"), others.get("weights")


def fitter(estimator, values=False, refit=False, seed=0):
    return Fitter(estimator, values=values, refit=refit, rng=np.random.default_rng(seed))


def fitted(estimator, **options):
    field = fitter(estimator, **options).fitted(X, VALUES, VISITS, whitening=WHITENING)
    return field.estimator


@pytest.mark.parametrize("estimator", [Linear(), Anything()])
@pytest.mark.parametrize("values", [False, True])
def test_what_a_fit_is_told(estimator, values):
    z, given, weights = fitted(estimator, values=values).told_
    np.testing.assert_allclose(z, WHITENING(X), rtol=1e-12)
    np.testing.assert_allclose(weights, VISITS)
    assert (given is None) != values
    if values:
        np.testing.assert_array_equal(given, VALUES)


def test_a_fit_without_weights_is_told_every_visit():
    (z,) = fitted(Bare()).told_
    assert len(z) == VISITS.sum()
    np.testing.assert_allclose(z, np.repeat(WHITENING(X), VISITS, axis=0), rtol=1e-12)


def test_neither_the_estimator_nor_an_earlier_fit_is_touched():
    estimator = Linear()
    fits = fitter(estimator)
    first, second = (
        fits.fitted(X[:n], VALUES[:n], VISITS[:n], whitening=WHITENING).estimator for n in (30, 60)
    )
    assert vars(estimator) == {"random_state": None}
    assert len(first.told_[0]) == 30 and len(second.told_[0]) == 60
    assert fits.n_fits == 2 and fits.n_failed == 0 and fits.name == "Linear"


# Seeds


class Nested:
    """With scikit-learn's access to parameters, and a nested estimator."""

    def __init__(self, inner, random_state=None):
        self.inner, self.random_state = inner, random_state

    def get_params(self, deep=True):
        return {
            "inner": self.inner,
            "random_state": self.random_state,
            "inner__random_state": self.inner.random_state,
        }

    def set_params(self, **params):
        for name, value in params.items():
            *path, last = name.split("__")
            setattr(self.inner if path else self, last, value)

    fit, gradient = Linear.fit, Linear.gradient


def test_seeds_that_are_none_come_from_the_run():
    states = [fitted(Linear(), seed=seed).random_state for seed in (1, 1, 2)]
    assert states[0] == states[1] != states[2]
    assert fitted(Linear(random_state=7)).random_state == 7
    nested = fitted(Nested(Linear()))
    assert isinstance(nested.random_state, int) and isinstance(nested.inner.random_state, int)
    assert nested.random_state != nested.inner.random_state
    kept = fitted(Nested(Linear(3), random_state=4))
    assert (kept.random_state, kept.inner.random_state) == (4, 3)


# Failures


class Failing(Linear):
    def __init__(self, error=None, gradient=None):
        super().__init__()
        self.error, self.result = error, gradient

    def fit(self, X, values=None, weights=None):
        if self.error is not None:
            raise self.error

    def gradient(self, X):
        return self.result(X)


@pytest.mark.parametrize(
    "estimator",
    [
        Failing(np.linalg.LinAlgError("singular")),
        Failing(ValueError("too few points")),
        Failing(ZeroDivisionError("division")),
        Failing(RuntimeError("no convergence")),
        Failing(gradient=lambda X: np.where(X > 1, np.nan, X)),
    ],
    ids=["LinAlgError", "ValueError", "ZeroDivisionError", "RuntimeError", "NaN"],
)
def test_a_fit_that_fails_is_reported(estimator):
    fits = fitter(estimator)
    assert fits.fitted(X, VALUES, VISITS, whitening=WHITENING) is None
    assert fits.n_fits == 0 and fits.n_failed == 1
    kind = type(estimator.error or ValueError()).__name__
    assert fits.error.startswith(kind + ": ") and len(fits.error) > len(kind) + 2


@pytest.mark.parametrize("gradient", [lambda X: X[:, 0], lambda X: X[:1], lambda X: X.T])
def test_a_gradient_of_the_wrong_shape_is_an_error(gradient):
    with pytest.raises(
        TypeError, match=r"Failing.gradient returned shape .* for points of shape \(60, 2\)"
    ):
        fitted(Failing(gradient=gradient))


def test_an_error_in_the_code_of_an_estimator_is_not_hidden():
    with pytest.raises(AttributeError, match="typo"):
        fitted(Failing(AttributeError("typo")))


# Estimators that are fitted already


class Fitted(Linear):
    density_ = "something"


class SaysSo(Linear):
    def __sklearn_is_fitted__(self):
        return hasattr(self, "told_")


def test_a_fitted_estimator_is_used_as_it_is():
    for estimator in (Fitted(), SaysSo().fit(X)):
        fits = fitter(estimator)
        first, second = (
            fits.given(WHITENING, X[:1]),
            fits.fitted(X, VALUES, VISITS, whitening=WHITENING),
        )
        assert first.estimator is second.estimator and not first.in_z
        assert first.estimator is not estimator  # whatever the user does with it during the run
        np.testing.assert_allclose(
            first.gradient(np.ones(2)), WHITENING.inverse.T @ -WHITENING.back(np.ones((1, 2)))[0]
        )
        assert fits.n_fits == 0


def test_a_fit_of_another_dimension_is_refused():
    class Complains(Fitted):
        def gradient(self, X):
            raise ValueError("X has 2 features, expecting 3")

    class Ignores(Fitted):
        def gradient(self, X):
            return np.zeros((len(X), 3))

    for estimator in (Complains(), Ignores()):
        with pytest.raises(ValueError, match="is fitted.* expected a target of dimension 2"):
            fitter(estimator).given(WHITENING, X[:1])


# Options


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (Linear, "is a class: expected an estimator"),
        (object(), "no method fit: expected an estimator"),
        ("nystrom", "no method fit"),
        (type("Half", (), {"fit": lambda self, X: self})(), "no method gradient"),
    ],
)
def test_an_object_that_is_not_an_estimator_is_refused(estimator, message):
    with pytest.raises(TypeError, match=message):
        ScoreHMC(estimator)


@pytest.mark.parametrize("values", [1, "yes", None, np.zeros(3)])
def test_values_is_a_switch(values):
    with pytest.raises(TypeError, match="values=.*expected True or False"):
        ScoreHMC(Linear(), values=values)


def test_values_for_a_fit_that_takes_none():
    with pytest.raises(TypeError, match="values=True, but fit of estimator=.* takes no values"):
        ScoreHMC(Bare(), values=True)
    with pytest.raises(
        TypeError, match=r"values=True, but fit of estimator=GaussianScore\(\) takes no values"
    ):
        ScoreHMC(GaussianScore(), values=True)
    assert not ScoreHMC(Bare(), values=False).values


def test_an_unknown_adaptation():
    with pytest.raises(ValueError, match="adaptation='never': expected 'freeze' or 'vanishing'"):
        ScoreHMC(Linear(), adaptation="never")
    with pytest.raises(TypeError, match="schedule=0.5, but estimator=.* has no method partial_fit"):
        ScoreHMC(Linear(), adaptation="vanishing", schedule=0.5)
    with pytest.raises(ValueError, match="schedule=1.5"):
        ScoreHMC(GaussianScore(), adaptation="vanishing", schedule=1.5)


@pytest.mark.parametrize("sampler", [None, "random-walk", KernelHMC, ScoreHMC(Linear())])
def test_warm_up_is_by_a_sampler_of_kmc(sampler):
    with pytest.raises(
        TypeError, match=r"warmup_sampler=.*: expected one of kmc.KernelHMC\(\), kmc.AdaptiveM"
    ):
        ScoreHMC(Linear(), warmup_sampler=sampler)
