"""scikit-learn's own tests of an estimator, as parameters of a test."""

import warnings
from collections.abc import Iterable
from typing import Any

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator


def conventions(estimators: Iterable[Any]) -> list[Any]:
    """Pairs of an estimator and a check for ``pytest.mark.parametrize(("estimator", "check"),
    ...)``.
    """
    with warnings.catch_warnings():
        # it warns of estimators that do not inherit from its own base
        warnings.simplefilter("ignore")
        return [
            pytest.param(one, check, id=f"{estimator!r}-{check.func.__name__}")
            for estimator in estimators
            for one, check in estimator_checks_generator(estimator)
        ]
