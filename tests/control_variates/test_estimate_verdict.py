import numpy as np
import pytest

import kmc
from kmc.control_variates.estimate import judge
from tests.control_variates.test_domain import made
from tests.posterior.curved import log_density

pytestmark = pytest.mark.usefixtures("few_particles")


def test_mass_far_from_all_draws_is_told():
    """There is no state in the surrogate's second mode, and few proposals."""
    verdict = judge(made(20, 60), np.random.SeedSequence(1))
    assert "mass" in (verdict.doubts or verdict.caution)


@pytest.fixture(scope="module")
def idata():
    return kmc.sample(log_density, dim=2, draws=None, max_evaluations=600, seed=1, progress=False)


@pytest.mark.slow
@pytest.mark.parametrize("further", [0.0, 1.0])
def test_expectations_and_evidence_doubt_the_same_surrogates(idata, monkeypatch, further):
    """A mode without draws, that only particles from above find."""
    mass_by = judge.__globals__["mass_by"]

    def with_further_mode(chains, rng):
        mass = mass_by(chains, rng)
        return mass._replace(up=mass.up + further)

    monkeypatch.setattr("kmc.control_variates.estimate.mass_by", with_further_mode)
    means = kmc.expectations(idata, max_surrogate_draws=4_000, quantiles=(), progress=False)
    evidence = kmc.evidence(idata, progress=False)
    assert means.attrs["corrected"] == int(not further)
    for found in (means, evidence):
        assert any(
            "it has a mode that the draws do not have" in line for line in found.attrs["warnings"]
        ) == bool(further)


@pytest.mark.slow
def test_warnings_of_the_run_that_its_draws_are_wrong_are_repeated(idata):
    assert kmc.evidence(idata, progress=False).attrs["warnings"] == []
    attrs = {
        "warnings": '["Draws are few.", "The chains disagree."]',
        "warning_codes": '["few-draws", "chains-disagree"]',
    }
    wrong = idata.copy()
    wrong["posterior"].attrs.update(attrs)
    for read_out in (kmc.expectations, kmc.evidence):
        with pytest.warns(kmc.KmcWarning, match="The chains disagree"):
            found = read_out(wrong, progress=False)
        assert any("The chains disagree" in sentence for sentence in found.attrs["warnings"])
