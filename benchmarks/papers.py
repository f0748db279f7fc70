"""Write docs/papers.md: each figure and table of the four papers, beside what kmc measured.

python benchmarks/papers.py

An entry is a figure, a table or a rate. It has the command that measures it, statements of the
paper, and for each the number that the command left in ``results``, from which this script decides
whether the statement holds. Nothing is measured here, and no number of kmc is typed in.
"""

from __future__ import annotations

from pathlib import Path

import paper_001
import paper_002
import paper_003
import paper_004
from paper_entries import VERDICTS
from score_results import markdown

PAGE = Path(__file__).parent.parent / "docs" / "papers.md"
PAPERS = {"001": paper_001, "002": paper_002, "003": paper_003, "004": paper_004}

HEAD = """# The four papers, figure by figure

kmc implements four papers. This page lists every figure and table of them, and the three rates that were measured: what
the paper says, what kmc measured, and whether they agree. `python benchmarks/papers.py` writes the page from the rows
in `benchmarks/results`, and decides each verdict by these numbers; the command of an entry measures them again.
{doc}`mathematics` says which equation is where in the package.

- **reproduced**: every statement holds, at the paper's sizes.
- **in part**: some statements hold, or all of them in a measurement that is smaller than the paper's or different.
- **not reproduced**: no statement holds.
- **not measured**: with the reason.
"""  # noqa: E501

LITERAL = (
    (
        "001, algorithm 1, footnote 6",
        "`kmc.spectral.galerkin`, with `regularization=` for the footnote",
        "galerkin",
    ),
    ("001, equation 16", "`kmc.spectral.GraphLaplacian`", "graph"),
    (
        "001, equations 17 and 18",
        "`kmc.spectral.spectral_loss`: both forms of the regularizer, a cutoff for each function, "
        "two networks; `NeuralEigenfunctions` minimizes it",
        "losses",
    ),
    ("001, algorithms 4 and 5", "`kmc.regression.HermiteRegression`", "hermite"),
    (
        "002, equation 1",
        "`kmc.spectral.KernelJL(center=False)`; the default centers, as in section 5",
        "sketches",
    ),
    ("002, section 5.2", "`kmc.spectral.NystromEmbedding`, `KernelPCA`", "sketches"),
    (
        "003, algorithms 1 and 2, equation 17",
        '`kmc.spectral.DiffusionMap(method="penalized")`',
        "diffusion_maps",
    ),
    ("004, equations 2 to 4", "`kmc.scores.FullKEF`", "full"),
    (
        "004, theorem 1",
        "`kmc.scores.NystromKEF`, with `components=` for subsampled components",
        "nystrom",
    ),
    (
        "004, lemma 4",
        "`kmc.scores.NystromKEF(basis=)`; in sections, with λK or λ(K + I), `LiteKEF(penalty=)`",
        "nystrom",
    ),
    ("004, section 3, random features", "`kmc.scores.FiniteKEF`", "fourier"),
    ("004, autoencoder", "`kmc.scores.DenoisingAutoencoder`", "autoencoder"),
    ("004, section 5.2", "`kmc.ScoreHMC`", "kmc_paper"),
)
"""Estimators as they are written, the names in kmc, and modules of tests/oracles that transcribe
the formulas.
"""


def page() -> str:
    """The text of docs/papers.md."""
    entries = [make() for paper in PAPERS.values() for make in paper.ENTRIES]
    counts = {verdict: sum(entry.verdict == verdict for entry in entries) for verdict in VERDICTS}
    text = [
        HEAD,
        "Of {} entries: {}.".format(
            len(entries), ", ".join(f"{n} {name}" for name, n in counts.items() if n)
        ),
        "",
    ]
    for key, paper in PAPERS.items():
        mine = [entry for entry in entries if entry.paper == key]
        lines = [[entry.item, entry.verdict, entry.reason, f"`{entry.command}`"] for entry in mine]
        text += [
            f"## {key}: {paper.TITLE}",
            "",
            markdown(["", "verdict", "why not more", "command"], lines, 4),
            "",
        ]
        claims = [
            [
                entry.item if k == 0 else "",
                claim.statement,
                claim.here,
                "yes" if claim.holds else "no",
            ]
            for entry in mine
            for k, claim in enumerate(entry.claims)
        ]
        text += [markdown(["", "the paper", "kmc", "holds"], claims, 4), ""]
        text += [f"{entry.item}, beside it: {entry.beside}.\n" for entry in mine if entry.beside]
    oracles = [(what, name, f"`tests/oracles/{oracle}.py`") for what, name, oracle in LITERAL]
    text += [
        "## The estimators as they are written",
        "",
        "Slow, literal transcriptions of the formulas check them.",
        "",
    ]
    text += [markdown(["paper", "in kmc", "checked by"], oracles, 3)]
    return "\n".join(text).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
