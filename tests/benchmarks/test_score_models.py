"""The benchmark's shortcut, one assembly for many regularizations, compared with separate fits."""

from functools import partial

import numpy as np
import pytest
from score_models import FULL, best, lite_model, nystrom_model, original_lite_model, subsampled_model
from score_problems import Grid

X = Grid(3).sample(np.random.default_rng(0), 60)
MODELS = {
    "full": FULL,
    "nyström": nystrom_model(9),
    "nyström D": subsampled_model(4, 60),
    "lite": lite_model(9),
    "original lite": original_lite_model(20),
}


@pytest.mark.parametrize("name", MODELS)
def test_path_is_a_fit_for_each_regularization(name):
    model, regularizations = MODELS[name], [1e-3, 1e-2, 0.1]
    make = partial(model.make, 5, 3)
    path = model.path(make, model.samples(X), {"bandwidth": 0.6}, regularizations)
    for regularization, density in zip(regularizations, path, strict=True):
        estimator = make(bandwidth=0.6, regularization=regularization).fit(model.samples(X))
        # the full model's path is solved to what a comparison of settings needs
        assert np.allclose(density.gradient(X), estimator.gradient(X), rtol=1e-6, atol=1e-2 if model is FULL else 1e-8)


def test_best_setting_has_the_least_loss():
    losses = []

    def loss(density):
        losses.append(float(np.sum(density.gradient(X) ** 2)))
        return losses[-1]

    value, setting = best(MODELS["lite"], X, [0.5, 1.0], 0, loss)
    assert value == min(losses)
    assert setting.keys() == {"bandwidth", "regularization"}
