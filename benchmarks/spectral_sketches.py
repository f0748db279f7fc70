"""Embeddings of kernel features: clustering accuracy and times: ``python
benchmarks/spectral_sketches.py --help``.

The experiments of Kpotufe and Sriperumbudur (2020), "Gaussian sketching yields a J-L lemma in
RKHS": figure 1 (two classes that no line separates, before and after a projection), figure 2 (the
effects of n and d), table 2 (Rand index of k-means after an embedding, on scikit-learn's data sets,
with scikit-learn's own embeddings), its times on data of the paper's sizes, and theorem 1 (errors
against n and d). The settings are the paper's: a Gaussian kernel exp(-|x - y|²/σ²) with σ the lower
quartile of the distances, a subsample of max(200, N/100) points (100 in figure 1), and ten
components for each cluster. Times are processor time on one thread. The paper's data (UCI's Avila,
IoT, Bank Notes) are not in this repository: table 2 takes them from the files that ``--data``
names.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from score_results import Results, grouped, markdown, mean_and_spread, median, number
from threadpoolctl import threadpool_limits

from kmc.bases import KernelSections
from kmc.errors import KmcWarning
from kmc.kernels import Gaussian, squared_distances
from kmc.spectral import KernelJL, KernelPCA, NystromEmbedding
from kmc.spectral.clustering import kmeans

HERE = Path(__file__).parent
EMBEDDINGS = {"K-JL": KernelJL, "Nyström": NystromEmbedding, "KPCA": KernelPCA}
COLORS = {"K-JL": "#c8553d", "Nyström": "#1f6478", "KPCA": "#7b4f9e"}
METHODS = ["k-means", *EMBEDDINGS, "sklearn KMeans", "sklearn Nystroem", "sklearn KernelPCA"]
DIMENSIONS = [1, 2, 3, 5, 10, 20, 50]
SCALES = [1.0, 0.5]
SIZES = {"Avila Bible": (20_867, 10, 12), "IoT": (40_000, 115, 5), "Bank Notes": (1372, 4, 2)}
PAPER_SECONDS = {
    "Avila Bible": {"Nyström": 0.112, "KPCA": 0.103, "K-JL": 0.086},
    "IoT": {"Nyström": 0.537, "KPCA": 0.500, "K-JL": 0.447},
    "Bank Notes": {"Nyström": 0.020, "KPCA": 0.014, "K-JL": 0.007},
}


# Data


def cluster_in_cluster(rng, n: int):
    """Three circles of radius 1 to 1.53, and around them 64 spokes from 4.17 to 5.83."""
    inside = n // 2
    angle = np.concatenate(
        [rng.uniform(0, 2 * np.pi, inside), rng.integers(0, 64, n - inside) * (np.pi / 32)]
    )
    radius = np.concatenate(
        [1 + 0.8 / 3 * rng.integers(0, 3, inside), rng.uniform(25 / 6, 35 / 6, n - inside)]
    )
    return polar(radius, angle), np.arange(n) >= inside


def crescent_and_full_moon(rng, n: int):
    """A disc of radius 5, a quarter of the points, and around it the lower half of a ring from 10
    to 15.
    """
    moon = n // 4
    angle = np.concatenate(
        [rng.uniform(0, 2 * np.pi, moon), rng.uniform(np.pi, 2 * np.pi, n - moon)]
    )
    radius = np.concatenate([5 * np.sqrt(rng.random(moon)), 10 + 5 * np.sqrt(rng.random(n - moon))])
    return polar(radius, angle), np.arange(n) >= moon


def polar(radius, angle):
    return radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])


SHAPES = {
    "cluster in cluster": cluster_in_cluster,
    "crescent and full moon": crescent_and_full_moon,
}


def from_file(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Points and classes from a CSV file without a header: numbers, and in the last column a class
    of any text.
    """
    table = np.loadtxt(path, delimiter=",", dtype=str, ndmin=2)
    return table[:, :-1].astype(float), np.unique(table[:, -1], return_inverse=True)[1]


def bundled() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Points and classes by name; wine and breast cancer, whose columns have units, are
    standardized.
    """
    from sklearn.datasets import load_breast_cancer, load_digits, load_wine

    digits, *others = (
        load(return_X_y=True) for load in (load_digits, load_wine, load_breast_cancer)
    )
    wine, cancer = (((x - x.mean(axis=0)) / x.std(axis=0), y) for x, y in others)
    return {"digits": digits, "wine": wine, "breast cancer": cancer}


def quartile_bandwidth(points: np.ndarray) -> float:
    """σ/√2 with σ the lower quartile of the distances between (at most a thousand) points."""
    some = points[np.linspace(0, len(points) - 1, min(len(points), 1000)).astype(int)]
    squared = squared_distances(some, some)[np.triu_indices(len(some), 1)]
    return float(np.sqrt(np.percentile(squared, 25) / 2))


# Measures


def rand_index(first: np.ndarray, second: np.ndarray) -> float:
    """Fraction of pairs of points that two partitions treat alike."""
    table = np.histogram2d(first, second, bins=(int(first.max()) + 1, int(second.max()) + 1))[0]
    pairs = [
        np.sum(counts * (counts - 1)) / 2
        for counts in (table, table.sum(axis=0), table.sum(axis=1))
    ]
    every = len(first) * (len(first) - 1) / 2
    return float((every + 2 * pairs[0] - pairs[1] - pairs[2]) / every)


def plane_accuracy(points: np.ndarray, classes: np.ndarray) -> float:
    """Fraction of the points on the correct side of the least-squares plane between two classes."""
    design = np.column_stack([points / np.abs(points).max(), np.ones(len(points))])
    coefficients = np.linalg.lstsq(design, 2.0 * classes - 1, rcond=None)[0]
    return float(np.mean((design @ coefficients > 0) == classes))


# Figure 1


def run_figure1(results: Results, options) -> None:
    """Rand index of k-means, and separation of the classes by a plane, against the dimension of the
    embedding.
    """
    for name, make in SHAPES.items():
        for seed in range(options.seeds):
            x, classes = make(np.random.default_rng(seed), options.points)
            unit = quartile_bandwidth(x)
            cells = [("k-means", 1.0, 2)] + [
                (m, s, d) for m in EMBEDDINGS for s in SCALES for d in DIMENSIONS
            ]
            for method, scale, d in cells:
                if (name, method, scale, d, seed) in results.rows and not options.rerun:
                    continue
                images = x
                if method in EMBEDDINGS:
                    model = EMBEDDINGS[method](
                        n_components=d, n_basis=100, bandwidth=scale * unit, random_state=seed
                    )
                    images = model.fit_transform(x)
                labels = kmeans(images, 2, np.random.default_rng(seed)).labels
                measured = {
                    "rand": rand_index(classes, labels),
                    "plane": plane_accuracy(images, classes),
                }
                row = {
                    "data": name,
                    "method": method,
                    "scale": scale,
                    "components": d,
                    "seed": seed,
                }
                results.add(row | measured)


def tables_figure1(rows) -> dict[str, str]:
    """Markdown by title."""
    tables = {}
    for column, title in [
        ("rand", "Rand index of k-means"),
        ("plane", "share on the right side of a plane"),
    ]:
        lines = []
        for (data, method, scale), group in grouped(rows, "data", "method", "scale").items():
            by_dimension = grouped(group, "components")
            values = [mean_and_spread(by_dimension.get((d,), []), column) for d in DIMENSIONS]
            lines.append([data, method, "" if method == "k-means" else f"{scale:g}", *values])
        head = ["data", "method", "σ, in quartiles", *(f"d = {d}" for d in DIMENSIONS)]
        tables[title] = markdown(head, lines, text_columns=2)
    return tables


def picture_figure1(rows, path: Path) -> None:
    """The data, its images in two dimensions by K-JL and by KPCA, and the Rand index."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from kmc.plots.style import ACCENT, INK

    figure, axes = plt.subplots(2, 4, figsize=(13, 6.2), layout="constrained")
    for line, (name, make) in zip(axes, SHAPES.items()):
        x, classes = make(np.random.default_rng(0), 1500)
        bandwidth = quartile_bandwidth(x)
        panels = {name: x}
        for title, embedding in [
            ("K-JL, n = 100, d = 2", KernelJL),
            ("KPCA, n = 100, d = 2", KernelPCA),
        ]:
            model = embedding(n_components=2, n_basis=100, bandwidth=bandwidth, random_state=0)
            panels[title] = model.fit_transform(x)
        for axis, (title, points) in zip(line, panels.items()):
            for label, color in [(False, "#1f6478"), (True, ACCENT)]:
                axis.plot(*points[classes == label].T, ".", color=color, markersize=2)
            axis.set_title(title, fontsize=10, color=INK)
            axis.set_xticks([])
            axis.set_yticks([])
        line[0].set_aspect("equal")
        for (method,), group in grouped(rows_of(rows, data=name, scale=1.0), "method").items():
            points = sorted(grouped(group, "components").items())
            mean = [np.mean([row["rand"] for row in members]) for _, members in points]
            if method == "k-means":
                line[3].axhline(
                    mean[0], color="#8a8f98", linestyle=":", label="k-means on the data"
                )
                continue
            error = [np.std([row["rand"] for row in members]) for _, members in points]
            dimension = [key[0] for key, _ in points]
            style = {
                "color": COLORS[method],
                "marker": "o",
                "markersize": 4,
                "linewidth": 1.3,
                "elinewidth": 0.7,
            }
            line[3].errorbar(dimension, mean, yerr=error, label=method, **style)
            plane = [np.mean([row["plane"] for row in members]) for _, members in points]
            line[3].plot(dimension, plane, color=COLORS[method], linestyle="--", linewidth=1)
        line[3].set_xscale("log")
        line[3].set_ylim(0.45, 1.03)
        line[3].set_title("Rand index (dashed: parted by a plane)", fontsize=10, color=INK)
        line[3].set_xlabel("components d", fontsize=9)
        line[3].grid(alpha=0.25, linewidth=0.5)
        line[3].spines[["top", "right"]].set_visible(False)
    axes[0, 3].legend(fontsize=8, frameon=False, loc="center right")
    figure.savefig(path, dpi=80)


# Figure 2

SUBSAMPLES = [25, 50, 100, 200, 400]
SKETCHES = [1, 2, 5, 10, 20, 50]
SIZE_POINTS, SIZE_SEEDS = 10_000, 10  # the paper's


def run_figure2(results: Results, options) -> None:
    """Rand index of k-means after an embedding: n = 200 and several d, d = 10 and several n."""
    sizes = sorted({(200, d) for d in SKETCHES} | {(n, 10) for n in SUBSAMPLES})
    for name, make in SHAPES.items():
        for seed in range(min(options.seeds, SIZE_SEEDS)):
            x, classes = make(np.random.default_rng(seed), SIZE_POINTS)
            unit = quartile_bandwidth(x)
            for method, embedding in EMBEDDINGS.items():
                for n, d in sizes:
                    if (name, method, n, d, seed) in results.rows and not options.rerun:
                        continue
                    model = embedding(n_components=d, n_basis=n, bandwidth=unit, random_state=seed)
                    labels = kmeans(model.fit_transform(x), 2, np.random.default_rng(seed)).labels
                    row = {
                        "data": name,
                        "method": method,
                        "subsample": n,
                        "components": d,
                        "seed": seed,
                    }
                    results.add(row | {"rand": rand_index(classes, labels)})


def tables_figure2(rows) -> dict[str, str]:
    """Markdown by title."""
    tables = {}
    for title, kept, varied, values in (
        ("d = 10", ("components", 10), "subsample", SUBSAMPLES),
        ("n = 200", ("subsample", 200), "components", SKETCHES),
    ):
        lines = []
        for (data, method), group in grouped(
            rows_of(rows, **dict([kept])), "data", "method"
        ).items():
            by_size = grouped(group, varied)
            lines.append(
                [data, method, *(mean_and_spread(by_size.get((v,), []), "rand") for v in values)]
            )
        letter = {"subsample": "n", "components": "d"}[varied]
        head = ["data", "method", *(f"{letter} = {v}" for v in values)]
        tables[f"Rand index of k-means, {title}"] = markdown(head, lines, text_columns=2)
    return tables


# Table 2


def run_table2(results: Results, options) -> None:
    """Rand index of k-means after an embedding, and the times of both."""
    for name, (x, classes) in (
        bundled() | {path.stem: from_file(path) for path in options.data}
    ).items():
        bandwidth, count = quartile_bandwidth(x), len(np.unique(classes))
        for method in METHODS:
            for seed in range(options.seeds):
                if (name, method, seed) in results.rows and not options.rerun:
                    continue
                if seed == 0:
                    # whatever must be compiled
                    embed(method, x, bandwidth, 10 * count, max(200, len(x) // 100), seed)
                begun = time.process_time()
                images = embed(method, x, bandwidth, 10 * count, max(200, len(x) // 100), seed)
                embedded = time.process_time()
                labels = cluster(method, images, count, seed)
                clustered = time.process_time()
                seconds = {
                    "embedding_ms": 1e3 * (embedded - begun),
                    "kmeans_ms": 1e3 * (clustered - embedded),
                }
                row = {
                    "data": name,
                    "method": method,
                    "seed": seed,
                    "rand": rand_index(classes, labels),
                }
                results.add(row | {"components": images.shape[1]} | seconds)


def embed(method: str, x, bandwidth: float, components: int, n_basis: int, seed: int) -> np.ndarray:
    """Images of the points, or the points for plain k-means."""
    gamma = 0.5 / bandwidth**2
    if method in EMBEDDINGS:
        options = {
            "n_components": components,
            "n_basis": n_basis,
            "bandwidth": bandwidth,
            "random_state": seed,
        }
        return EMBEDDINGS[method](**options).fit_transform(x)
    if method == "sklearn Nystroem":
        from sklearn.kernel_approximation import Nystroem

        return Nystroem(
            gamma=gamma, n_components=min(n_basis, len(x)), random_state=seed
        ).fit_transform(x)
    if method == "sklearn KernelPCA":
        from sklearn.decomposition import KernelPCA as Reference

        subsample = np.random.default_rng(seed).permutation(len(x))[:n_basis]
        reference = Reference(n_components=components, kernel="rbf", gamma=gamma, random_state=seed)
        return reference.fit(x[subsample]).transform(x)
    return x


def cluster(method: str, images, count: int, seed: int) -> np.ndarray:
    """Labels of the best of ten runs of k-means, by scikit-learn for its own embeddings."""
    if method.startswith("sklearn"):
        from sklearn.cluster import KMeans

        return KMeans(count, n_init=10, random_state=seed).fit_predict(images)
    return kmeans(images, count, np.random.default_rng(seed)).labels


def tables_table2(rows) -> dict[str, str]:
    """Markdown by title."""
    lines = []
    for (data, method), group in grouped(rows, "data", "method").items():
        times = [number(median(group, column)) for column in ("embedding_ms", "kmeans_ms")]
        lines.append([data, method, group[0]["components"], mean_and_spread(group, "rand"), *times])
    head = ["data", "method", "d", "Rand index", "embedding, ms", "k-means, ms"]
    return {"Rand index and time": markdown(head, lines, text_columns=2)}


# Times


def run_times(results: Results, options) -> None:
    """Times of the embeddings, on Gaussian mixtures of the sizes of the paper's data."""
    for name, (n, dimension, count) in SIZES.items():
        rng = np.random.default_rng(0)
        centers = 3.0 * rng.standard_normal((count, dimension))
        x = rng.standard_normal((n, dimension)) + centers[rng.integers(0, count, n)]
        bandwidth = quartile_bandwidth(x)
        for method in METHODS[1:]:
            for seed in range(min(options.seeds, 5)):
                if method == "sklearn KMeans" or (
                    (name, method, seed) in results.rows and not options.rerun
                ):
                    continue
                begun = time.process_time()
                embed(method, x, bandwidth, 10 * count, max(200, n // 100), seed)
                row = {
                    "data": name,
                    "method": method,
                    "seed": seed,
                    "points": n,
                    "dimension": dimension,
                }
                results.add(row | {"seconds": time.process_time() - begun})


def tables_times(rows) -> dict[str, str]:
    """Markdown by title."""
    lines = []
    for (data, n, dimension), group in grouped(rows, "data", "points", "dimension").items():
        by_method = grouped(group, "method")
        for method in EMBEDDINGS:
            ours = median(by_method[(method,)], "seconds")
            peer = {"Nyström": "sklearn Nystroem", "KPCA": "sklearn KernelPCA"}.get(method)
            theirs = number(median(by_method[(peer,)], "seconds")) if peer else ""
            lines.append(
                [
                    data,
                    f"{n} x {dimension}",
                    method,
                    number(ours),
                    theirs,
                    PAPER_SECONDS[data][method],
                ]
            )
    head = ["size of", "N x D", "method", "kmc, s", "scikit-learn, s", "paper (Matlab), s"]
    return {"seconds for the embedding": markdown(head, lines, text_columns=3)}


# Theorem 1

LARGE, PLACES, REPETITIONS = 5000, 50, 20
SIDES = [25, 100, 400, 1600]
"""Sizes n of the subsample and d of the sketch."""


def run_theorem1(results: Results, options) -> None:
    """Largest error of inner products of sketches, over pairs of 50 sections, relative to the
    largest of <f, Σ³ f>.

    Standard normal points in the plane, a Gaussian kernel of bandwidth one, and features that are
    not centered. Σ is that of 5,000 other points.
    """
    rng = np.random.default_rng(0)
    large, places = rng.standard_normal((LARGE, 2)), rng.standard_normal((PLACES, 2))
    basis = KernelSections(Gaussian(1.0), large)
    sampled = basis.values(places)  # f at the points, for each section f
    image = sampled @ basis.gram()
    truth = image @ image.T / LARGE**3
    for n in SIDES:
        for d in SIDES:
            for seed in range(min(options.seeds, REPETITIONS)):
                if (n, d, seed) in results.rows and not options.rerun:
                    continue
                x = np.random.default_rng([1, seed]).standard_normal((n, 2))
                sketch = (
                    KernelJL(d, bandwidth=1.0, n_basis=n, random_state=seed, center=False)
                    .fit(x)
                    .transform(places)
                )
                error = np.abs(sketch @ sketch.T - truth).max() / truth.max()
                results.add({"subsample": n, "components": d, "seed": seed, "error": float(error)})


def tables_theorem1(rows) -> dict[str, str]:
    """Markdown by title."""
    by_size = grouped(rows, "subsample", "components")
    lines = [[f"n = {n}", *(mean_and_spread(by_size[n, d], "error") for d in SIDES)] for n in SIDES]
    return {"largest error of inner products": markdown(["", *(f"d = {d}" for d in SIDES)], lines)}


PARTS = {
    "figure1": (("data", "method", "scale", "components", "seed"), run_figure1, tables_figure1),
    "figure2": (("data", "method", "subsample", "components", "seed"), run_figure2, tables_figure2),
    "table2": (("data", "method", "seed"), run_table2, tables_table2),
    "times": (("data", "method", "seed"), run_times, tables_times),
    "theorem1": (("subsample", "components", "seed"), run_theorem1, tables_theorem1),
}
ORDER = {
    "data": [*SHAPES, "digits", "wine", "breast cancer", *SIZES],
    "method": METHODS,
    "scale": SCALES,
}


def rows_of(rows, **values):
    """The rows with these values."""
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument(
        "--only", type=lambda text: text.split(","), default=list(PARTS), help="parts, with commas"
    )
    parser.add_argument(
        "--seeds", type=int, default=10, help="repetitions; the paper has 30 in table 2"
    )
    parser.add_argument(
        "--points", type=int, default=5000, help="points of each data set of figure 1"
    )
    parser.add_argument(
        "--data",
        type=Path,
        nargs="*",
        default=[],
        help="table2: further CSV files without a header, the class in the last column",
    )
    parser.add_argument("--rerun", action="store_true", help="run cells even if the CSV has them")
    parser.add_argument("--report", action="store_true", help="run nothing")
    options = parser.parse_args()
    if unknown := set(options.only) - set(PARTS):
        parser.error(f"--only {','.join(sorted(unknown))}: expected some of {', '.join(PARTS)}")
    for name in options.only:
        key, run, tables = PARTS[name]
        results = Results(HERE / "results" / f"spectral_sketches_{name}.csv", key)
        with threadpool_limits(1), warnings.catch_warnings():
            # fewer components than requested: the table says so
            warnings.simplefilter("ignore", KmcWarning)
            if not options.report:
                run(results, options)
        rows = list(results.rows.values())
        for column in ("scale", "method", "data"):
            if column in key:
                order = {value: k for k, value in enumerate(ORDER[column])}
                rows.sort(key=lambda row: order.get(row[column], len(order)))
        for title, text in tables(rows).items():
            print(f"\n{name}: {title}\n{text}")
        if name == "figure1":
            picture_figure1(rows, HERE / "pictures" / "spectral_sketches_figure1.png")


if __name__ == "__main__":
    main()
