"""Figures of the Galerkin paper: ``python benchmarks/spectral_galerkin.py --help``.

Cabannes and Bach (2023), "The Galerkin method beats graph-based approaches for spectral
algorithms". Each figure has a file results/galerkin_<figure>.csv and a picture; ``--size small``
takes seconds, ``--size full`` makes the stored results. Run with one thread (OMP_NUM_THREADS=1 and
so on) for comparable times. Figures 7 to 10 of its appendix show more of the grid of figure 3:
``--appendix`` prints them as tables, from the stored rows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from math import factorial
from pathlib import Path

import numpy as np
from numpy.polynomial.hermite_e import hermeval
from scipy import linalg
from scipy.special import lpmv
from score_plots import curves, save
from score_results import Results, grouped, markdown, number
from spectral_problems import Sphere, sphere_error

from kmc.bases import KernelSections
from kmc.forms import Forms, accumulate
from kmc.kernels import Exponential, Gaussian, Kernel, Polynomial, squared_distances
from kmc.regression import HermiteRegression
from kmc.spectral import DirichletForm, GraphLaplacian, NeuralEigenfunctions, TangentProp, galerkin
from kmc.spectral.galerkin_method import whitening
from kmc.spectral.neighbors import gaussian

HERE = Path(__file__).parent
MODES = 25  # of the metric (21)

Row = dict


def half_moons(
    rng: np.random.Generator, n: int, noise: float = 0.05
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points (n, 2) of two half-moons of radius one, the moon of each, and its angle, in [0, π] up
    to noise.
    """
    moon, angle = rng.integers(2, size=n), rng.uniform(0.0, np.pi, n)
    x = np.column_stack([np.cos(angle), np.sin(angle)]) + noise * rng.standard_normal((n, 2))
    angle = np.arctan2(x[:, 1], x[:, 0])
    x[moon == 1] = [1.0, 0.5] - x[moon == 1]
    return x, moon, angle


def figure1(size: str) -> tuple[list[Row], Callable]:
    """Sixteen eigenfunctions of two half-moons: cosines along each of them.

    With the paper's exponential kernel and with a Gaussian one. Eigenvalues in a span are upper
    bounds up to sampling noise: the picture shows the kernel with the lower ones.
    """
    n, p = {"small": (5_000, 100), "full": (100_000, 200)}[size]
    x, moon, angle = half_moons(np.random.default_rng(0), n)
    cosines = np.cos(np.outer(angle, np.arange(10)))
    design = np.hstack([cosines * (moon == k)[:, None] for k in (0, 1)])
    rows, decompositions = [], []
    for kernel in (Exponential(1.0), Gaussian(0.2)):
        start = time.perf_counter()
        decompositions.append(
            galerkin(DirichletForm(), KernelSections(kernel, x[:p]), None, x, n_components=16)
        )
        head = {"kernel": repr(kernel), "n": n, "p": p, "seconds": time.perf_counter() - start}
        modes = decompositions[-1].left.values(x)
        residuals = modes - design @ np.linalg.lstsq(design, modes)[0]
        shares = 1.0 - np.mean(residuals**2, axis=0)
        for k in range(16):
            # m² on each moon of length π; the second 0 separates the moons
            theory = ((k + 1) // 2) ** 2
            row = head | {"mode": k + 1, "eigenvalue": float(decompositions[-1].eigenvalues_[k])}
            rows.append(row | {"moons apart": theory, "share in cosines": float(shares[k])})
    found = min(decompositions, key=lambda one: one.eigenvalues_.sum())

    def picture(path: Path) -> None:
        import matplotlib.pyplot as plt

        a, b = np.meshgrid(np.linspace(-1.25, 2.25, 140), np.linspace(-0.75, 1.25, 90))
        grid = np.column_stack([a.ravel(), b.ravel()])
        values = found.left.values(grid)
        near = (
            np.min(((grid[:, None] - x[None, :600]) ** 2).sum(axis=2), axis=1).reshape(a.shape)
            < 0.06**2
        )
        figure, axes = plt.subplots(4, 4, figsize=(8.4, 5.2), layout="constrained")
        for k, axis in enumerate(axes.flat):
            axis.contourf(
                a, b, np.where(near, values[:, k].reshape(a.shape), np.nan), 11, cmap="RdBu"
            )
            axis.set_title(f"λ = {found.eigenvalues_[k]:.3g}", fontsize=8)
            axis.set_axis_off()
        figure.savefig(path, dpi=90)

    return rows, picture


def figure2(size: str) -> tuple[list[Row], Callable]:
    """Spherical harmonics with the polynomial kernel of degree three: in all directions, and along
    the sphere.
    """
    n = {"small": 5_000, "full": 100_000}[size]
    x = Sphere(3).sample(np.random.default_rng(0), n)
    basis = KernelSections(Polynomial(3), x[:100])
    forms = {
        "ambient": DirichletForm(),
        "along the sphere": TangentProp(lambda x: np.cross(np.eye(3), x[:, None, :])),
    }
    found = {name: galerkin(form, basis, None, x) for name, form in forms.items()}
    rows = []
    for name, modes in found.items():
        factor = 1.0 if name == "ambient" else 3.0  # the form is the mean over the three rotations
        values = modes.left.values(x)
        for k, degree in enumerate(np.repeat([1, 2, 3], [3, 5, 7])):
            harmonics = harmonics_of(x, degree)
            fit = harmonics @ np.linalg.lstsq(harmonics, values[:, k])[0]
            row = {
                "form": name,
                "mode": k + 1,
                "eigenvalue": factor * float(modes.eigenvalues_[k]),
                "n": n,
            }
            rows.append(
                row
                | {
                    "truth": int(degree * (degree + 1)),
                    "share in harmonics": float(np.mean(fit**2)),
                }
            )

    return rows, partial(_draw_harmonics, found["along the sphere"].left.values)


def figure5(size: str) -> tuple[list[Row], Callable]:
    """Spherical harmonics by a network, along the sphere; needs PyTorch."""
    n, steps = {"small": (5_000, 300), "full": (20_000, 3_000)}[size]
    x = Sphere(3).sample(np.random.default_rng(0), n)
    start = time.perf_counter()
    rotations = TangentProp(lambda x: np.cross(np.eye(3), x[:, None, :]))
    found = NeuralEigenfunctions(15, rotations, max_iter=steps, random_state=0).fit(x)
    head = {"n": n, "steps": steps, "seconds": time.perf_counter() - start}
    rows = []
    for k, degree in enumerate(np.repeat([1, 2, 3], [3, 5, 7])):
        harmonics = harmonics_of(x, degree)
        fit = harmonics @ np.linalg.lstsq(harmonics, found.transform(x)[:, k])[0]
        row = head | {"mode": k + 1, "eigenvalue": 3.0 * float(found.eigenvalues_[k])}
        rows.append(
            row
            | {"truth": int(degree * (degree + 1)), "share in harmonics": float(np.mean(fit**2))}
        )
    return rows, partial(_draw_harmonics, found.transform)


def figure6(size: str) -> tuple[list[Row], Callable]:
    """Hermite polynomials in the plane with the polynomial kernel of degree three: a random basis
    of each degree.
    """
    n = {"small": 5_000, "full": 100_000}[size]
    x = np.random.default_rng(0).standard_normal((n, 2))
    found = galerkin(DirichletForm(), KernelSections(Polynomial(3), x[:100]), None, x)
    values, rows = found.left.values(x), []
    for k, degree in enumerate(np.repeat([1, 2, 3], [2, 3, 4])):
        exact = hermite_of(x, degree)
        fit = exact @ np.linalg.lstsq(exact, values[:, k])[0]
        row = {
            "mode": k + 1,
            "eigenvalue": float(found.eigenvalues_[k]),
            "n": n,
            "truth": int(degree),
        }
        rows.append(row | {"share in polynomials": float(np.mean(fit**2))})

    def picture(path: Path) -> None:
        import matplotlib.pyplot as plt

        a, b = np.meshgrid(np.linspace(-2.5, 2.5, 80), np.linspace(-2.5, 2.5, 80))
        grid = np.column_stack([a.ravel(), b.ravel()])
        learned, true = (
            found.left.values(grid),
            np.hstack([hermite_of(grid, degree) for degree in (1, 2, 3)]),
        )
        figure, axes = plt.subplots(2, 9, figsize=(11, 2.7), layout="constrained")
        for row, (name, shown) in zip(
            axes, {"learned": learned, "true": true}.items(), strict=True
        ):
            for k, axis in enumerate(row):
                axis.contourf(a, b, shown[:, k].reshape(a.shape), 11, cmap="RdBu")
                axis.set(
                    xticks=[],
                    yticks=[],
                    title=f"degree {np.repeat([1, 2, 3], [2, 3, 4])[k]}" * (name == "learned"),
                )
            row[0].set_ylabel(name, fontsize=8)
        figure.savefig(path, dpi=90)

    return rows, picture


def hermite_of(x: np.ndarray, degree: int) -> np.ndarray:
    """Products of Hermite polynomials of one degree (n, degree + 1) at points in the plane, of mean
    square one.
    """
    columns = []
    for i in range(degree + 1):
        one, other = (
            hermeval(x[:, k], np.eye(degree + 1)[order]) for k, order in ((0, i), (1, degree - i))
        )
        columns.append(one * other / np.sqrt(factorial(i) * factorial(degree - i)))
    return np.column_stack(columns)


def appendix(rows: list[Row]) -> str:
    """Figures 7 to 10, from the rows of figure 3: the best settings, the dimension, the kernels."""
    most = max(row["n"] for row in rows if row["method"] != "Galerkin")
    by_size, by_dimension, by_kernel = [], [], []
    counts = sorted({row["n"] for row in rows if row["n"] <= most})
    for (method, dim), group in sorted(grouped(rows, "method", "dim").items()):
        best = {n: _best(members) for (n,), members in grouped(group, "n").items()}
        for name in ("p", "kernel", "seconds", "error"):
            cells = [best[n][name] if n in best else "" for n in counts]
            by_size.append(
                [method, dim, name, *(number(v) if isinstance(v, float) else v for v in cells)]
            )
    for (dim,), group in sorted(
        grouped((row for row in rows if row["n"] == DIMENSIONS_AT), "dim").items()
    ):
        best = [_best(members) for _, members in sorted(grouped(group, "method").items())]
        by_dimension.append([dim, *(number(row["error"]) for row in best)])
    for (dim, n), group in sorted(
        grouped((row for row in rows if row["method"] == "Galerkin"), "dim", "n").items()
    ):
        families = grouped(({**row, "family": row["kernel"].split()[0]} for row in group), "family")
        found = {family: _best(members) for (family,), members in families.items()}
        line = [
            f"{number(found[name]['error'])} ({found[name]['kernel'].split()[1]})"
            for name in FAMILIES
        ]
        by_kernel.append([dim, n, *line])
    return "\n\n".join(
        [
            "Figures 7 and 8, the best of each grid",
            markdown(["method", "d", "", *(f"n = {n}" for n in counts)], by_size),
            f"Figure 9, the best of each grid at n = {DIMENSIONS_AT}",
            markdown(["d", *METHODS], by_dimension),
            "Figure 10, the best metric of each kernel (its degree or width)",
            markdown(["d", "n", *FAMILIES], by_kernel),
        ]
    )


def _draw_harmonics(learned: Callable, path: Path) -> None:
    """Two functions of each degree over the sphere, above true ones."""
    import matplotlib.pyplot as plt

    longitude, latitude = np.meshgrid(
        np.linspace(-np.pi, np.pi, 80), np.linspace(-np.pi / 2, np.pi / 2, 40)
    )
    across = np.cos(latitude)
    points = np.stack(
        [across * np.cos(longitude), across * np.sin(longitude), np.sin(latitude)], axis=-1
    ).reshape(-1, 3)
    rows = {
        "learned": learned(points)[:, [0, 1, 3, 4, 8, 9]],
        "true": np.column_stack([harmonics_of(points, s)[:, j] for s in (1, 2, 3) for j in (0, 1)]),
    }
    options = {
        "figsize": (10.5, 2.7),
        "subplot_kw": {"projection": "mollweide"},
        "layout": "constrained",
    }
    figure, axes = plt.subplots(2, 6, **options)
    for row, (name, values) in zip(axes, rows.items(), strict=True):
        for k, axis in enumerate(row):
            shown = values[:, k].reshape(longitude.shape)
            axis.pcolormesh(longitude, latitude, shown, cmap="RdBu", rasterized=True)
            axis.set_xticks([])
            axis.set_yticks([])
        row[0].set_ylabel(name, fontsize=8)
    for k in range(6):
        axes[0, k].set_title(f"degree {1 + k // 2}", fontsize=8)
    figure.savefig(path, dpi=90)


def harmonics_of(x: np.ndarray, degree: int) -> np.ndarray:
    """Real spherical harmonics of one degree (n, 2 degree + 1) at points of the sphere in R³, of
    mean square one.
    """
    longitude, columns = np.arctan2(x[:, 1], x[:, 0]), []
    for order in range(degree + 1):
        size = (
            (2 * degree + 1)
            * (1 if order == 0 else 2)
            * factorial(degree - order)
            / factorial(degree + order)
        )
        legendre = np.sqrt(size) * lpmv(order, degree, x[:, 2])
        columns += [
            legendre * wave(order * longitude)
            for wave in ((np.cos, np.sin) if order else (np.cos,))
        ]
    return np.column_stack(columns)


METHODS = ("Galerkin", "graph Laplacian")
KERNELS: dict[str, Kernel] = {
    **{f"polynomial {s}": Polynomial(s) for s in (2, 3, 4, 5)},
    **{f"exponential {h:g}": Exponential(h) for h in (0.3, 1.0, 10.0, 100.0)},
    **{f"gaussian {h:g}": Gaussian(h) for h in (0.3, 1.0, 3.0, 10.0)},
}
FEW_KERNELS = ("polynomial 3", "exponential 1", "exponential 10", "gaussian 1", "gaussian 3")
FEW_DIMS = (3, 9, 19)  # of the graph
FEW_FROM = 10_000  # samples, from which on there are few kernels, and few dimensions of the graph
FAMILIES = ("polynomial", "exponential", "gaussian")
FUNCTIONS = (30, 100, 300)  # p
WIDTHS = (0.05, 0.1, 0.2, 0.4, 0.8)  # of the weights of the graph
MOST_OF_GRAPH = 10_000  # samples: its time is O(n²)
DIMENSIONS_AT = 1_000  # samples, of figure 9
BLOCK = 1024
TIMED = {
    method: ("polynomial 3", 100, width) for method, width in zip(METHODS, ("", 0.2), strict=True)
}
"""The setting whose time is drawn against n."""


def figure3(size: str) -> tuple[Iterator[Row], Callable]:
    """The metric (21) on spheres: Galerkin and graph Laplacian, each the best of its grid, as in
    the paper.

    Both have the same kernels and p. Rows are the best setting of each kernel family, and one more
    whose time is drawn.
    """
    rows: list[Row] = []

    def measured() -> Iterator[Row]:
        for row in _figure3_rows(size):
            rows.append(row)
            yield row

    def picture(path: Path) -> None:
        import matplotlib

        figure, panels = curves(4, width=3.3, height=3.5)
        dims = sorted({row["dim"] for row in rows})
        colors = dict(
            zip(
                dims, matplotlib.colormaps["viridis"](np.linspace(0.0, 0.9, len(dims))), strict=True
            )
        )
        for method, panel in zip(METHODS, panels[:2], strict=True):
            for (dim,), group in grouped(
                (row for row in rows if row["method"] == method), "dim"
            ).items():
                best = [_best(members) for _, members in sorted(grouped(group, "n").items())]
                _line(panel, best, "n", color=colors[dim], label=f"d = {dim}")
            panel.label(method, "samples", "metric (21)", "xy")
            panel.axis.set_ylim(0.008, 2.0)
        for method, color in zip(METHODS, ("#1f6478", "#c8553d"), strict=True):
            group = [row for row in rows if row["method"] == method and row["n"] == DIMENSIONS_AT]
            _line(
                panels[2],
                [_best(one) for _, one in sorted(grouped(group, "dim").items())],
                "dim",
                color=color,
            )
        panels[2].label(f"n = {DIMENSIONS_AT:,} (graph: red)", "dimension", "metric (21)", "y")
        for (method, dim), group in grouped(rows, "method", "dim").items():
            timed = [
                row for row in group if (row["kernel"], row["p"], row["width"]) == TIMED[method]
            ]
            style = "-" if method == "Galerkin" else ":"
            at = [row["n"] for row in timed]
            panels[3].axis.plot(
                at, [row["seconds"] for row in timed], style, color=colors[dim], linewidth=1.2
            )
        panels[3].label("polynomial, p = 100 (graph: dotted)", "samples", "seconds", "xy")
        save(figure, panels, path, columns=9)

    return measured(), picture


def _line(panel, rows: list[Row], x: str, **look) -> None:
    """Errors against a column, with their spread over samples."""
    options = {"marker": "o", "markersize": 3, "linewidth": 1.2, "elinewidth": 0.7} | look
    spread = [row["spread"] for row in rows]
    panel.axis.errorbar(
        [row[x] for row in rows], [row["error"] for row in rows], yerr=spread, **options
    )


def _figure3_rows(size: str) -> Iterator[Row]:
    dims, seeds, most = {"small": ((3, 5), 2, 1_000), "full": (range(3, 20, 2), 10, 100_000)}[size]
    for method, kernel in product(METHODS, KERNELS):  # compile
        _fitted(method, Sphere(3).sample(np.random.default_rng(0), 100), kernel, 30, 0.2)
    for n in (round(n) for n in 10.0 ** np.arange(2.0, 5.01, 0.5) if round(n) <= most):
        for dim in dims:
            yield from _cell(dim, n, seeds if n <= 1_000 else 3 if n < 10_000 else 1)


def _cell(dim: int, n: int, count: int) -> list[Row]:
    """Rows of one dimension and sample size: means over this number of samples."""
    samples = [
        Sphere(dim).sample(np.random.default_rng([dim, n, seed]), n) for seed in range(count)
    ]
    found = [metrics(x) for x in samples]
    rows = []
    for method, kernel, p, width in found[0]:
        errors = [one[method, kernel, p, width] for one in found]
        row = {"method": method, "dim": dim, "n": n, "kernel": kernel, "p": p, "width": width}
        row |= {
            "error": float(np.mean(errors)),
            "spread": float(np.std(errors)),
            "samples": count,
            "seconds": "",
        }
        rows.append(row | {"family": kernel.split()[0]})
    kept = []
    for (method,), group in grouped(rows, "method").items():
        line = [row for row in group if (row["kernel"], row["p"], row["width"]) == TIMED[method]]
        kept += line + [
            row
            for members in grouped(group, "family").values()
            if (row := _best(members)) not in line
        ]
        for row in [*line, *(one for one in [_best(group)] if one not in line)]:
            start = time.perf_counter()
            _fitted(method, samples[0], row["kernel"], row["p"], row["width"])
            row["seconds"] = time.perf_counter() - start
    return [{name: value for name, value in row.items() if name != "family"} for row in kept]


def metrics(x: np.ndarray) -> dict[tuple, float]:
    """The metric for one sample by method, kernel, p and width.

    All settings share the sums over samples: functions of a smaller p are the first of a larger
    one, and with α = 1/2 the second moments of both methods are the same.
    """
    n, dim = x.shape
    truth, errors = Sphere(dim).eigenvalues(MODES), {}
    names = KERNELS if n < FEW_FROM else FEW_KERNELS
    bases = {name: KernelSections(KERNELS[name], x[: FUNCTIONS[-1]]) for name in names}
    widths = WIDTHS if n < FEW_FROM or (n <= MOST_OF_GRAPH and dim in FEW_DIMS) else ()
    energies = {width: _graph_energies(x, width, list(bases.values())) for width in widths}
    for k, (kernel, basis) in enumerate(bases.items()):
        forms = accumulate(basis, x, ("mass", "dirichlet"))
        for p in (p for p in FUNCTIONS if p <= n):
            part = Forms(forms.weight, mean=forms.mean[:p], mass_scatter=forms.mass_scatter[:p, :p])
            w = whitening(KernelSections(basis.kernel, x[:p]), part, True, 2e-8)
            for width, energy in {
                "": forms.dirichlet / n,
                **{h: found[k] for h, found in energies.items()},
            }.items():
                matrix = w.T @ energy[:p, :p] @ w
                estimate = linalg.eigvalsh(0.5 * (matrix + matrix.T))[:MODES]
                method = METHODS[0] if width == "" else METHODS[1]
                errors[method, kernel, p, width] = _error(method, estimate, truth)
    return errors


def _graph_energies(x: np.ndarray, width: float, bases: list[KernelSections]) -> list[np.ndarray]:
    """Σ w_ij (φ_a(x_i) - φ_a(x_j)) (φ_b(x_i) - φ_b(x_j)) / (n h²) of each basis, (p, p), as in
    GraphLaplacian.

    Each pair of blocks of samples is looked at once, since the weights are symmetric. Means of
    functions do not matter, and without them less is lost to rounding.
    """
    n, values = len(x), np.hstack([basis.values(x) for basis in bases])
    values -= values.mean(axis=0)
    columns = [
        slice(end - basis.size, end)
        for basis, end in zip(bases, np.cumsum([b.size for b in bases]))
    ]
    energies = [np.zeros((basis.size, basis.size)) for basis in bases]
    scale, degrees = np.ones(n), np.zeros(n)
    for last in (False, True):
        degrees[:] = 0.0
        for start in range(0, n, BLOCK):
            rows, later = slice(start, start + BLOCK), slice(start + BLOCK, n)
            k = (
                gaussian(squared_distances(x[rows], x[start:]), width**2)
                * scale[rows, None]
                * scale[start:]
            )
            degrees[rows] += k.sum(axis=1)
            degrees[later] += k[:, BLOCK:].sum(axis=0)
            if last:
                spread = 0.5 * k[:, :BLOCK] @ values[rows] + k[:, BLOCK:] @ values[later]
                for energy, part in zip(energies, columns, strict=True):
                    energy -= values[rows, part].T @ spread[:, part]
        scale = degrees**-0.5
    factor = 1.0 / (0.5 * width**2 * n)
    weighted = degrees[:, None] * values
    return [
        factor * (e + e.T + values[:, part].T @ weighted[:, part])
        for e, part in zip(energies, columns, strict=True)
    ]


def _fitted(method: str, x: np.ndarray, kernel: str, p: int, width) -> np.ndarray:
    """Eigenvalues by the package, in the span of the first p sections."""
    basis = KernelSections(KERNELS[kernel], x[:p])
    if method == "Galerkin":
        return galerkin(DirichletForm(), basis, None, x).eigenvalues_[:MODES]
    return GraphLaplacian(MODES, bandwidth=width, n_neighbors=None, basis=basis).fit(x).eigenvalues_


def _error(method: str, estimate: np.ndarray, truth: np.ndarray) -> float:
    """The metric (21); eigenvalues of graphs are rescaled to the true sum, as in the paper's
    appendix B.1.
    """
    if method != "Galerkin" and estimate.sum() > 0:  # not if no points are neighbors
        estimate = estimate * (truth[: len(estimate)].sum() / estimate.sum())
    return sphere_error(np.maximum(estimate, 1e-12), truth)


def _best(rows):
    """The row with the least error, of equal ones that which was timed."""
    return min(rows, key=lambda row: (row["error"], row["seconds"] == ""))


def figure4(size: str) -> tuple[list[Row], Callable]:
    """Regression with and without gradients: of a constant, hard for the Gaussian kernel, and of a
    wave.
    """
    seeds = {"small": 1, "full": 20}[size]
    targets = {
        "a constant": (lambda x: np.ones(len(x)), np.zeros_like),
        "a wave": (
            lambda x: np.sin(3 * x).prod(axis=1),
            lambda x: 3 * np.cos(3 * x) * np.sin(3 * x[:, ::-1]),
        ),
    }
    rows = []
    for name, (value, gradient) in targets.items():
        for bandwidth in 10.0 ** np.arange(-1.0, 0.76, 0.25):
            errors: dict[str, list[float]] = {"plain": [], "Hermite": []}
            for seed in range(seeds):
                rng = np.random.default_rng(seed)
                x, test = rng.uniform(-1.0, 1.0, (1000, 2)), rng.uniform(-1.0, 1.0, (1000, 2))
                for method in errors:
                    model = HermiteRegression(
                        "gaussian",
                        bandwidth,
                        1e-6,
                        n_basis=100,
                        fit_intercept=False,
                        random_state=seed,
                    )
                    model.fit(x, value(x), gradient(x) if method == "Hermite" else None)
                    errors[method].append(
                        float(np.sqrt(np.mean((model.predict(test) - value(test)) ** 2)))
                    )
            for method, found in errors.items():
                row = {"target": name, "bandwidth": float(bandwidth), "method": method}
                rows.append(row | {"rmse": float(np.mean(found)), "spread": float(np.std(found))})

    def picture(path: Path) -> None:
        figure, panels = curves(2, width=3.8, height=3.3)
        for (target,), panel in zip(grouped(rows, "target"), panels, strict=True):
            for (method,), group in grouped(
                (row for row in rows if row["target"] == target), "method"
            ).items():
                options = {
                    "color": {"plain": "#8a8f98", "Hermite": "#1f6478"}[method],
                    "marker": "o",
                    "markersize": 3,
                }
                x, y = [row["bandwidth"] for row in group], [row["rmse"] for row in group]
                panel.axis.plot(x, y, label=f"{method} regression", linewidth=1.3, **options)
            panel.label(
                f"Learning {target}, n = 1000, p = 100", "bandwidth", "root mean square error", "xy"
            )
        save(figure, panels, path)

    return rows, picture


FIGURES: dict[str, tuple[Callable, tuple[str, ...]]] = {
    "figure1": (figure1, ("kernel", "mode")),
    "figure2": (figure2, ("form", "mode")),
    "figure3": (figure3, ("method", "dim", "n", "kernel", "p", "width")),
    "figure4": (figure4, ("target", "method", "bandwidth")),
    "figure5": (figure5, ("mode",)),
    "figure6": (figure6, ("mode",)),
}
"""Each: a function from the size to rows and a function that draws them, and the key of the rows.
"""


def table(name: str, rows: list[Row]) -> str:
    """A summary of the rows."""
    if name != "figure3":
        return markdown(
            list(rows[0]),
            [[v if isinstance(v, (str, int)) else number(v) for v in row.values()] for row in rows],
        )
    lines = []
    for (dim, n), group in sorted(grouped(rows, "dim", "n").items()):
        line = [dim, n]
        for method in ("Galerkin", "graph Laplacian"):
            of_method = [row for row in group if row["method"] == method]
            best = _best(of_method) if of_method else None
            line += (
                [number(best["error"]), best["kernel"], best["p"], number(best["seconds"])]
                if best
                else [""] * 4
            )
        lines.append(line)
    head = [
        "d",
        "n",
        "Galerkin",
        "kernel",
        "p",
        "seconds",
        "graph Laplacian",
        "kernel",
        "p",
        "seconds",
    ]
    return markdown(head, lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        default=list(FIGURES)[:4],
        help="figures, with commas",
    )
    parser.add_argument("--size", choices=("small", "full"), default="small")
    parser.add_argument(
        "--folder", type=Path, default=HERE, help="where results/ and pictures/ are"
    )
    parser.add_argument(
        "--report", action="store_true", help="run nothing: print tables of the stored rows"
    )
    parser.add_argument(
        "--appendix",
        action="store_true",
        help="only print figures 7 to 10, from figure 3's results",
    )
    options = parser.parse_args()
    if options.appendix:
        stored = Results(options.folder / "results" / "galerkin_figure3.csv", FIGURES["figure3"][1])
        print(appendix(list(stored.rows.values())))
        return
    if unknown := set(options.only) - set(FIGURES):
        parser.error(f"--only {','.join(sorted(unknown))}: expected some of {', '.join(FIGURES)}")
    if options.report:
        for name in options.only:
            stored = Results(options.folder / "results" / f"galerkin_{name}.csv", FIGURES[name][1])
            print(f"\n{name}\n{table(name, list(stored.rows.values()))}")
        return
    import matplotlib

    matplotlib.use("Agg")
    (options.folder / "pictures").mkdir(parents=True, exist_ok=True)
    for name in options.only:
        make, key = FIGURES[name]
        start = time.perf_counter()
        made, picture = make(options.size)
        path = options.folder / "results" / f"galerkin_{name}.csv"
        path.unlink(missing_ok=True)
        results = Results(path, key)
        rows = []
        for row in made:
            results.add(row)
            rows.append(row)
        picture(options.folder / "pictures" / f"galerkin_{name}.png")
        print(f"\n{name}, {time.perf_counter() - start:.0f} s\n{table(name, rows)}", flush=True)


if __name__ == "__main__":
    main()
