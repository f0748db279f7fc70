"""Figures and tables of paper 001, Cabannes and Bach (2023), for ``benchmarks/papers.py``."""

from __future__ import annotations

import numpy as np
import spectral_scaling
from paper_entries import RESULTS, Claim, Entry, Row, best, middle, rows, slope, span, worst
from score_results import Results, grouped, number
from spectral_galerkin import (
    DIMENSIONS_AT,
    FEW_DIMS,
    FEW_FROM,
    FEW_KERNELS,
    FUNCTIONS,
    KERNELS,
    METHODS,
    WIDTHS,
)

TITLE = (
    "Cabannes and Bach (2023), *The Galerkin method beats "
    "graph-based approaches for spectral algorithms*"
)


def galerkin_command(figure: int) -> str:
    return f"python benchmarks/spectral_galerkin.py --size full --only figure{figure}"


def half_moons() -> Entry:
    found = rows("galerkin_figure1", kernel="Exponential(bandwidth=1.0)")
    least, first = min(row["share in cosines"] for row in found), found[0]
    statement = "The first sixteen eigenfunctions are cosines along each of two half-moons."
    here = (
        f"{least:.1%} of the variance of each or more is in cosines along the moons; n = "
        f"{first['n']:,}, p = {first['p']}. The first eigenvalue, zero for two separate moons, is "
        f"{number(first['eigenvalue'])}"
    )
    return Entry(
        "001", "Figure 1, half-moons", galerkin_command(1), [Claim(statement, here, least > 0.99)]
    )


def harmonics() -> Entry:
    along, ambient = (
        rows("galerkin_figure2", form=form) for form in ("along the sphere", "ambient")
    )
    least = min(row["share in harmonics"] for row in along + ambient)
    statement = "The polynomial kernel of degree three learns all harmonics of degree one to three."
    here = (
        f"{least:.1%} of the variance of each of fifteen functions or more is in harmonics of its "
        f"degree. Eigenvalues are off by at most {worst(along):.1%} along the sphere; with all "
        f"partial derivatives, as in the paper's operator, they are up to {1 + worst(ambient):.2f} "
        "times those of the sphere"
    )
    return Entry(
        "001",
        "Figure 2, spherical harmonics",
        galerkin_command(2),
        [Claim(statement, here, least > 0.99)],
    )


def errors_by(method: str) -> dict[int, dict[int, Row]]:
    """The best row of figure 3 by dimension and number of samples; of each cell the best one was
    timed.
    """
    found: dict[int, dict[int, Row]] = {}
    for (dim, n), group in grouped(rows("galerkin_figure3", method=method), "dim", "n").items():
        found.setdefault(dim, {})[n] = best(row for row in group if row["seconds"] != "")
    return found


def grid() -> str:
    """In what the grid of figure 3 is smaller than the paper's."""
    found = rows("galerkin_figure3")
    sizes = grouped(found, "samples").items()
    counted = ", ".join(
        f"{count} up to n = {max(row['n'] for row in group):,}"
        for (count,), group in sorted(sizes)[::-1]
    )
    settings = len(KERNELS) * len(FUNCTIONS)
    few, most = (
        len(FEW_KERNELS) * len(FUNCTIONS),
        max(row["n"] for row in found if row["method"] != "Galerkin"),
    )
    return (
        f"samples instead of 100: {counted}; {settings} settings for Galerkin instead of 75, "
        f"{settings * len(WIDTHS)} for the graph instead of 450; from n = {FEW_FROM:,} on {few} "
        f"and {few * len(WIDTHS)}; graphs in {len(FEW_DIMS)} dimensions of nine at n = {most:,}, "
        "not above; one fit timed"
    )


def sphere_errors() -> Entry:
    mine, graphs = errors_by("Galerkin"), errors_by("graph Laplacian")
    slopes, longer = (
        [
            slope((n, row["error"]) for n, row in found.items() if n >= least)
            for found in mine.values()
        ]
        for least in (1000, 0)
    )
    falls = [found[1000]["error"] / found[100_000]["error"] for found in mine.values()]
    most = max(max(found) for found in graphs.values())
    ratios = {
        dim: graphs[dim][most]["error"] / mine[dim][most]["error"]
        for dim in graphs
        if most in graphs[dim]
    }
    by_size: dict[int, list[float]] = {}
    for dim, sizes in graphs.items():
        for n, row in sizes.items():
            by_size.setdefault(n, []).append(row["error"] / mine[dim][n]["error"])
    pairs = [ratio for group in by_size.values() for ratio in group]
    ahead = ", ".join(
        f"{sum(r > 1 for r in group)} of {len(group)} at n = {n:,}" for n, group in by_size.items()
    )
    timed = [
        row
        for row in rows("galerkin_figure3", method="Galerkin", p=100, kernel="polynomial 3")
        if row["n"] > 1000
    ]
    times = [
        slope((row["n"], row["seconds"]) for row in group)
        for group in grouped(timed, "dim").values()
    ]
    shown = ", ".join(f"{ratio:.2f} (d = {dim})" for dim, ratio in ratios.items())
    claims = [
        Claim(
            "Galerkin: from n = 1,000 to 100,000 the error falls as n^-1/2 (a slope of -0.5 ± "
            "0.1) in every dimension.",
            f"slopes of {span(slopes)}, for {len(mine)} dimensions from {min(mine)} to "
            f"{max(mine)}; from n = 100 on {span(longer)}",
            all(abs(one + 0.5) < 0.1 for one in slopes),
        ),
        Claim(
            "It falls tenfold from n = 1,000 to 100,000 (2 to 0.2).",
            f"by a factor of {span(falls)}: {number(mine[3][1000]['error'])} to "
            f"{number(mine[3][100_000]['error'])} for d = 3",
            min(falls) > 5,
        ),
        Claim(
            "Graph Laplacians suffer from the dimension.",
            f"their error is {shown} times Galerkin's at n = {most:,}",
            ratios[max(ratios)] > 1.1 * ratios[min(ratios)],
        ),
        Claim(
            "Galerkin beats graphs.",
            f"its best error is the smaller one in {ahead}; that of graphs, whose eigenvalues are "
            f"rescaled to the true "
            f"sum as in the paper, is {span(pairs)} times it, {middle(pairs)} at the median",
            all(ratio > 1 for ratio in pairs),
        ),
        Claim("The time is linear in n.", f"exponents of {span(times)}", max(times) < 1.15),
    ]
    return Entry("001", "Figure 3, error and time on spheres", galerkin_command(3), claims, grid())


def hermite_regression() -> Entry:
    found = rows("galerkin_figure4", target="a constant")
    plain, hermite = (
        [row for row in found if row["method"] == method] for method in ("plain", "Hermite")
    )
    least = [min(row["rmse"] for row in group) for group in (plain, hermite)]
    below = [
        one["bandwidth"]
        for one, other in zip(hermite, plain, strict=True)
        if one["rmse"] < other["rmse"]
    ]
    here = (
        f"at the best bandwidth the error is {number(least[1])} with gradients, "
        f"{number(least[0])} without; it is "
        f"smaller with gradients at {len(below)} of {len(plain)} bandwidths, from {min(below):g} on"
    )
    statement = (
        "With gradients, a constant is learned with a smaller error "
        "(a picture; the paper prints no number)."
    )
    claims = [Claim(statement, here, least[1] < least[0])]
    return Entry("001", "Figure 4, Hermite regression", galerkin_command(4), claims)


def network() -> Entry:
    found = rows("galerkin_figure5")
    least = min(row["share in harmonics"] for row in found)
    here = (
        f"{least:.1%} of the variance of each of {len(found)} functions or more is in harmonics of "
        f"its degree; eigenvalues are off by at most {worst(found):.1%}"
    )
    limits = (
        f"two layers of 64 instead of four of 200 to 2,000, {found[0]['steps']:,} steps of Adam "
        f"instead of 5,000 of "
        "SGD, and a Galerkin solution in the span of the outputs instead of principal components"
    )
    statement = "A network learns spherical harmonics."
    return Entry(
        "001",
        "Figure 5, a network",
        galerkin_command(5),
        [Claim(statement, here, least > 0.99)],
        limits,
    )


def hermite_plane() -> Entry:
    found = rows("galerkin_figure6")
    least = min(row["share in polynomials"] for row in found)
    here = (
        f"{least:.1%} of the variance of each of {len(found)} functions or more is in polynomials "
        f"of its degree; eigenvalues are off by at most {worst(found):.1%}"
    )
    statement = "Hermite polynomials in the plane, as a random basis of each degree."
    return Entry(
        "001",
        "Figure 6, Hermite polynomials",
        galerkin_command(6),
        [Claim(statement, here, least > 0.99)],
    )


APPENDIX = "python benchmarks/spectral_galerkin.py --appendix"


def best_sizes() -> Entry:
    mine, graphs = errors_by("Galerkin"), errors_by("graph Laplacian")
    largest = {
        (dim, n): max(p for p in FUNCTIONS if p <= n) for dim, sizes in mine.items() for n in sizes
    }
    smaller = sum(
        row["p"] < largest[dim, n] for dim, sizes in mine.items() for n, row in sizes.items()
    )
    times = [
        row["seconds"] / mine[dim][n]["seconds"]
        for dim, sizes in graphs.items()
        for n, row in sizes.items()
    ]
    claims = [
        Claim(
            "The best number p of functions is not always the largest.",
            f"it is below the largest in {smaller} of {len(largest)} cells",
            smaller > 0,
        ),
        Claim(
            "Best graphs take a time of the same order.",
            f"{middle(times)} times Galerkin's at the median, {span(times)}",
            float(np.median(times)) < 3,
        ),
    ]
    return Entry("001", "Figure 7, best p and time", APPENDIX, claims, grid())


def best_settings() -> Entry:
    families = grouped(
        ({"name": name, "family": name.split()[0]} for name in KERNELS), "family"
    ).values()
    edges = {group[end]["name"] for group in families for end in (0, -1)}
    mine, graphs = (
        [row for sizes in errors_by(method).values() for n, row in sizes.items() if n < FEW_FROM]
        for method in METHODS
    )
    inside = sum(row["kernel"] not in edges for row in mine)
    width = sum(min(WIDTHS) < row["width"] < max(WIDTHS) for row in graphs)
    claims = [
        Claim(
            "Best kernels are inside the grid.",
            f"in {inside} of {len(mine)} cells",
            inside == len(mine),
        ),
        Claim(
            "So are best weights of the graph.",
            f"in {width} of {len(graphs)} cells",
            width == len(graphs),
        ),
    ]
    return Entry("001", "Figure 8, best settings", APPENDIX, claims, grid())


def dimensions() -> Entry:
    n = DIMENSIONS_AT
    mine, graphs = (
        {dim: sizes[n]["error"] for dim, sizes in errors_by(method).items()} for method in METHODS
    )
    growth = [found[max(found)] / found[min(found)] for found in (graphs, mine)]
    ahead = [dim for dim in mine if graphs[dim] < mine[dim]]
    shown = "; ".join(f"d = {dim}: {number(graphs[dim])} and {number(mine[dim])}" for dim in mine)
    claims = [
        Claim(
            "Graphs suffer more from the dimension.",
            f"error at d = {max(mine)} over that at d = {min(mine)}: {growth[0]:.2f} for graphs, "
            f"{growth[1]:.2f} for Galerkin",
            growth[0] > 1.1 * growth[1],
        ),
        Claim(
            "Galerkin has the smaller error in every dimension.",
            f"with equal kernels and p for both, the graph is ahead in {len(ahead)} of "
            f"{len(mine)} dimensions; graph and Galerkin: {shown}",
            not ahead,
        ),
    ]
    samples = rows("galerkin_figure3", n=n)[0]["samples"]
    return Entry(
        "001",
        "Figure 9, the dimension",
        APPENDIX,
        claims,
        f"n = {n:,} alone, {samples} samples instead of 100",
    )


def kernels() -> Entry:
    found = [row for sizes in errors_by("Galerkin").values() for row in sizes.values()]
    polynomial = sum(row["kernel"].startswith("polynomial") for row in found)
    here = f"it is the best of three in {polynomial} of {len(found)} cells"
    claims = [Claim("The polynomial kernel is not always the best.", here, polynomial < len(found))]
    return Entry("001", "Figure 10, the kernel", APPENDIX, claims, grid())


def complexity() -> Entry:
    claims = []
    for claim, found, error in spectral_scaling.exponents(
        Results(RESULTS / "spectral_scaling.csv", spectral_scaling.KEY)
    ):
        what = "memory" if claim.measure == "megabytes" else f"time of {claim.measure}"
        most = float(claim.exponent.split(" to ")[-1])
        statement = (
            f"{claim.method}, {what}: {claim.paper}, "
            f"so {claim.varied} to the power {claim.exponent} at most."
        )
        claims.append(
            Claim(statement, f"{found:.2f} ± {error:.2f}", found - 2 * error <= most + 0.1)
        )
    return Entry("001", "Table 1, complexity", "python benchmarks/spectral_scaling.py", claims)


ENTRIES = (
    half_moons,
    harmonics,
    sphere_errors,
    hermite_regression,
    network,
    hermite_plane,
    best_sizes,
    best_settings,
    dimensions,
    kernels,
    complexity,
)
