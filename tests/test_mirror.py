"""The folders of tests are those of the package, and a test's name begins with that of the module it is about."""

from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "kmc"
OF_THEIR_OWN = {"benchmarks", "correctness", "examples", "malformed", "oracles", "typing"}

SUBJECTS = {
    "": "architecture extensions import large_data layers mirror names options_take_effect readme signatures site "
    "workflows",
    "bases": "jit_states",
    "cli": "main store",
    "mcmc": "noisy_warmup sampler_state walls",
    "plots": "run",
    "readout": "bad_results",
    "run": "named tracebacks wide_starts",
    "run/executors": "executors mpi same_draws",
    "run/store": "ahead crashes damage hostile kill refusals trust",
    "scores": "bad_input sklearn",
    "targets": "other_packages",
}
"""By folder, tests of what several modules do together."""

HELPERS = {
    "": "_names _version demo errors jitted lazy",
    "bases": "base_jit_state general geometry gradient_moments",
    "cli": "options",
    "diagnostics": "columns langevin mode_verdicts",
    "forms": "scatter sums",
    "kernels": "profiles",
    "mcmc": "affine base lanes learned_density mode_mixture random_walk",
    "plots": "evidence style surrogates traces",
    "control_variates": "annealing means replicate",
    "readout": "quantities",
    "regression": "candidates",
    "reports": "page",
    "run": "recording run",
    "run/executors": "futures maps task usage worker",
    "run/store": "commit evaluations open parts",
    "scores": "base base_fits sums",
    "spectral": "eigenfunctions embedding generator_selection judgment neighbors neural_training operators "
    "sections transition_modes trial",
    "surrogates": "density depth expansion_search fit_options fit_task in_coordinates repair scale_group surrogate "
    "term_groups term_pursuit term_regression term_search terms_jit_state wall_jit_state whitening",
    "targets": "dimensions distributions returned",
}
"""By folder, modules without a test of their name: they are tested through those that use them."""


def named(table):
    return {(folder, name) for folder, names in table.items() for name in names.split()}


def modules():
    for path in PACKAGE.rglob("*.py"):
        if not path.name.startswith("__"):
            yield folder(path, PACKAGE), path.stem


def files_of_tests():
    for path in TESTS.rglob("test_*.py"):
        if path.relative_to(TESTS).parts[0] not in OF_THEIR_OWN:
            yield folder(path, TESTS), path.stem.removeprefix("test_")


def folder(path, root):
    return "/".join(path.relative_to(root).parts[:-1])


def module_of(test, known):
    """test_full_system_preconditioner.py is about full_system.py, and not about full.py."""
    where, name = test
    parts = name.split("_")
    found = ((where, "_".join(parts[:k])) for k in range(len(parts), 0, -1))
    return next((module for module in found if module in known), None)


def test_each_test_is_of_a_module_or_of_a_subject():
    known = set(modules())
    assert {test for test in files_of_tests() if module_of(test, known) is None} == named(SUBJECTS)


def test_each_module_has_a_test_or_is_tested_through_others():
    known = set(modules())
    assert known - {module_of(test, known) for test in files_of_tests()} == named(HELPERS)
