"""Figures and tables of paper 001, Cabannes and Bach (2023), for ``benchmarks/papers.py``."""

from __future__ import annotations

import numpy as np
import spectral_scaling
from paper_entries import RESULTS, Claim, Entry, Row, best, middle, rows, slope, span, worst
from score_results import Results, grouped, number

TITLE = "Cabannes and Bach (2023), *The Galerkin method beats graph-based approaches for spectral algorithms*"


def galerkin_command(figure: int) -> str:
    return f"python benchmarks/spectral_galerkin.py --size full --only figure{figure}"


def half_moons() -> Entry:
    found = rows("galerkin_figure1", kernel="Exponential(bandwidth=1.0)")
    least, first = min(row["share in cosines"] for row in found), found[0]
    statement = "The first sixteen eigenfunctions are cosines along each of two half-moons."
    here = (
        f"{least:.1%} of the variance of each or more is in cosines along the moons; n = {first['n']:,}, "
        f"p = {first['p']}. The first eigenvalue, zero for two separate moons, is {number(first['eigenvalue'])}"
    )
    return Entry("001", "Figure 1, half-moons", galerkin_command(1), [Claim(statement, here, least > 0.99)])


def harmonics() -> Entry:
    along, ambient = (rows("galerkin_figure2", form=form) for form in ("along the sphere", "ambient"))
    least = min(row["share in harmonics"] for row in along + ambient)
    statement = "The polynomial kernel of degree three learns all harmonics of degree one to three."
    here = (
        f"{least:.1%} of the variance of each of fifteen functions or more is in harmonics of its degree. "
        f"Eigenvalues are off by at most {worst(along):.1%} along the sphere; with all partial derivatives, as in the "
        f"paper's operator, they are up to {1 + worst(ambient):.2f} times those of the sphere"
    )
    return Entry("001", "Figure 2, spherical harmonics", galerkin_command(2), [Claim(statement, here, least > 0.99)])


def errors_by(method: str) -> dict[int, dict[int, Row]]:
    """The best row of figure 3 by dimension and number of samples."""
    found: dict[int, dict[int, Row]] = {}
    for (dim, n), group in grouped(rows("galerkin_figure3", method=method), "dim", "n").items():
        found.setdefault(dim, {})[n] = best(group)
    return found


GRID = (
    "three dimensions of nine, at most 3 samples of each size instead of 100, 27 settings for Galerkin instead of 75, "
    "12 for the graph instead of 450"
)


def sphere_errors() -> Entry:
    mine, graphs = errors_by("Galerkin"), errors_by("graph Laplacian")
    slopes = [slope((n, row["error"]) for n, row in by_size.items()) for by_size in mine.values()]
    falls = [by_size[1000]["error"] / by_size[100_000]["error"] for by_size in mine.values()]
    most = max(max(by_size) for by_size in graphs.values())
    ratios = {dim: graphs[dim][most]["error"] / mine[dim][most]["error"] for dim in graphs}
    pairs = [(row["error"], mine[dim][n]["error"]) for dim, sizes in graphs.items() for n, row in sizes.items()]
    timed = [
        row for row in rows("galerkin_figure3", method="Galerkin", p=100, kernel="polynomial 3") if row["n"] > 1000
    ]
    times = [slope((row["n"], row["seconds"]) for row in group) for group in grouped(timed, "dim").values()]
    shown = ", ".join(f"{ratio:.2f} (d = {dim})" for dim, ratio in ratios.items())
    claims = [
        Claim(
            "Galerkin: the error falls as n^-1/2 (a slope of -0.5 ± 0.1) in every dimension.",
            f"slopes of {span(slopes)}, for d = {', '.join(map(str, mine))}",
            all(abs(one + 0.5) < 0.1 for one in slopes),
        ),
        Claim(
            "It falls tenfold from n = 1,000 to 100,000 (2 to 0.2).",
            f"by a factor of {span(falls)}: {number(mine[3][1000]['error'])} to {number(mine[3][100_000]['error'])} "
            "for d = 3",
            min(falls) > 5,
        ),
        Claim(
            "Graph Laplacians suffer from the dimension.",
            f"their error is {shown} times Galerkin's at n = {most:,}",
            ratios[max(ratios)] > 2 and ratios[max(ratios)] == max(ratios.values()),
        ),
        Claim(
            "Galerkin beats graphs.",
            f"its best error is the smaller one in {sum(a > b for a, b in pairs)} of {len(pairs)} cells",
            all(a > b for a, b in pairs),
        ),
        Claim("The time is linear in n.", f"exponents of {span(times)}", max(times) < 1.15),
    ]
    return Entry("001", "Figure 3, error and time on spheres", galerkin_command(3), claims, GRID)


def hermite_regression() -> Entry:
    found = rows("galerkin_figure4", target="a constant")
    plain, hermite = ([row for row in found if row["method"] == method] for method in ("plain", "Hermite"))
    least = [min(row["rmse"] for row in group) for group in (plain, hermite)]
    below = [one["bandwidth"] for one, other in zip(hermite, plain, strict=True) if one["rmse"] < other["rmse"]]
    here = (
        f"at the best bandwidth the error is {number(least[1])} with gradients, {number(least[0])} without; it is "
        f"smaller with gradients at {len(below)} of {len(plain)} bandwidths, from {min(below):g} on"
    )
    statement = "With gradients, a constant is learned with a smaller error (a picture; the paper prints no number)."
    claims = [Claim(statement, here, least[1] < least[0])]
    return Entry("001", "Figure 4, Hermite regression", galerkin_command(4), claims)


def network() -> Entry:
    found = rows("galerkin_figure5")
    least = min(row["share in harmonics"] for row in found)
    here = (
        f"{least:.1%} of the variance of each of {len(found)} functions or more is in harmonics of its degree; "
        f"eigenvalues are off by at most {worst(found):.1%}"
    )
    limits = (
        f"two layers of 64 instead of four of 200 to 2,000, {found[0]['steps']:,} steps of Adam instead of 5,000 of "
        "SGD, and a Galerkin solution in the span of the outputs instead of principal components"
    )
    statement = "A network learns spherical harmonics."
    return Entry("001", "Figure 5, a network", galerkin_command(5), [Claim(statement, here, least > 0.99)], limits)


def hermite_plane() -> Entry:
    found = rows("galerkin_figure6")
    least = min(row["share in polynomials"] for row in found)
    here = (
        f"{least:.1%} of the variance of each of {len(found)} functions or more is in polynomials of its degree; "
        f"eigenvalues are off by at most {worst(found):.1%}"
    )
    statement = "Hermite polynomials in the plane, as a random basis of each degree."
    return Entry("001", "Figure 6, Hermite polynomials", galerkin_command(6), [Claim(statement, here, least > 0.99)])


APPENDIX = "python benchmarks/spectral_galerkin.py --appendix"


def best_sizes() -> Entry:
    mine, graphs = errors_by("Galerkin"), errors_by("graph Laplacian")
    largest = {
        key: max(row["p"] for row in group)
        for key, group in grouped(rows("galerkin_figure3", method="Galerkin"), "dim", "n").items()
    }
    smaller = sum(row["p"] < largest[dim, n] for dim, sizes in mine.items() for n, row in sizes.items())
    times = [row["seconds"] / mine[dim][n]["seconds"] for dim, sizes in graphs.items() for n, row in sizes.items()]
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
    return Entry("001", "Figure 7, best p and time", APPENDIX, claims, GRID)


def best_settings() -> Entry:
    edges = {
        f"{name} {value}"
        for name, ends in (("polynomial", "24"), ("exponential", ("0.3", "10")), ("gaussian", ("0.3", "3")))
        for value in ends
    }
    mine, graphs = (
        [row for sizes in errors_by(m).values() for row in sizes.values()] for m in ("Galerkin", "graph Laplacian")
    )
    widths = [row["width"] for row in rows("galerkin_figure3", method="graph Laplacian")]
    inside = sum(row["kernel"] not in edges for row in mine)
    width = sum(min(widths) < row["width"] < max(widths) for row in graphs)
    claims = [
        Claim("Best kernels are inside the grid.", f"in {inside} of {len(mine)} cells", inside == len(mine)),
        Claim("So are best weights of the graph.", f"in {width} of {len(graphs)} cells", width == len(graphs)),
    ]
    return Entry("001", "Figure 8, best settings", APPENDIX, claims, GRID)


def dimensions() -> Entry:
    found = rows("galerkin_figure9")
    by_dim = {
        dim: [
            best(row for row in group if row["method"] == method)["error"] for method in ("Galerkin", "graph Laplacian")
        ]
        for (dim,), group in grouped(found, "dim").items()
    }
    least, most = min(by_dim), max(by_dim)
    ahead = [dim for dim, (mine, graph) in by_dim.items() if graph < mine]
    shown = "; ".join(f"d = {dim}: {number(graph)} and {number(mine)}" for dim, (mine, graph) in by_dim.items())
    growth = [by_dim[most][k] / by_dim[least][k] for k in (0, 1)]
    claims = [
        Claim(
            "Graphs suffer more from the dimension.",
            f"error at d = {most} over that at d = {least}: {growth[1]:.2f} for graphs, {growth[0]:.2f} for Galerkin",
            growth[1] > 1.1 * growth[0],
        ),
        Claim(
            "Galerkin has the smaller error in every dimension.",
            f"with equal kernels and p for both, the graph is ahead in {len(ahead)} of {len(by_dim)} dimensions; "
            f"graph and Galerkin: {shown}",
            not ahead,
        ),
    ]
    n, seeds = found[0]["n"], found[0]["seeds"]
    limits = f"n = {n:,} alone, {seeds} samples instead of 100, 27 settings for Galerkin and 81 for the graph"
    return Entry("001", "Figure 9, the dimension", galerkin_command(9), claims, limits)


def kernels() -> Entry:
    found = [row for sizes in errors_by("Galerkin").values() for row in sizes.values()]
    polynomial = sum(row["kernel"].startswith("polynomial") for row in found)
    here = f"it is the best of three in {polynomial} of {len(found)} cells"
    claims = [Claim("The polynomial kernel is not always the best.", here, polynomial < len(found))]
    return Entry("001", "Figure 10, the kernel", APPENDIX, claims, GRID)


def complexity() -> Entry:
    claims = []
    for claim, found, error in spectral_scaling.exponents(
        Results(RESULTS / "spectral_scaling.csv", spectral_scaling.KEY)
    ):
        what = "memory" if claim.measure == "megabytes" else f"time of {claim.measure}"
        most = float(claim.exponent.split(" to ")[-1])
        statement = f"{claim.method}, {what}: {claim.paper}, so {claim.varied} to the power {claim.exponent} at most."
        claims.append(Claim(statement, f"{found:.2f} ± {error:.2f}", found - 2 * error <= most + 0.1))
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
