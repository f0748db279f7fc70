"""Score estimators with malformed arguments and data."""

from hypothesis import given

from kmc import scores
from tests.malformed.cases import calls, finite, hold
from tests.malformed.estimators import ABOUT_X, estimator
from tests.malformed.examples import POINTS, WEIGHTS, X, Y, the


def is_a_density(estimator, arguments):
    x = POINTS[:, : estimator.n_features_in_]
    if x.shape[1] == estimator.n_features_in_:
        finite(estimator.gradient(x), x.shape)
        finite(estimator.laplacian(x), (3,))


SAMPLES = {"X": X, "values": Y, "weights": WEIGHTS}
BARE = {"X": X, "weights": WEIGHTS}
SMALL = {"regularization": 0.01, "n_basis": 5}
SCORES = [
    estimator(scores.GaussianScore, is_a_density, BARE),
    estimator(scores.NystromKEF, is_a_density, SAMPLES, **SMALL, landmarks=X[:4], also={"X": (*ABOUT_X, "landmarks")}),
    estimator(scores.LiteKEF, is_a_density, SAMPLES, **SMALL),
    estimator(scores.FiniteKEF, is_a_density, SAMPLES, ["n_basis"], **SMALL),
    estimator(scores.FullKEF, is_a_density, SAMPLES, regularization=0.01),
    estimator(
        scores.DenoisingAutoencoder,
        is_a_density,
        BARE,
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
