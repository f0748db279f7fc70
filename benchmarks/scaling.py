"""How the workers' time is used, and how long 1,000 effective samples take, by price and number of workers.

    python benchmarks/scaling.py            # adds missing rows to results/scaling.csv, and writes results/scaling.md
    python benchmarks/scaling.py --report   # writes the page only

Time is virtual (:mod:`virtual`): kmc's own scheduler and emcee's half-steps run on simulated workers. One row is in
real time, beside the same in virtual time: its workers are threads that sleep.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from metrics import bulk_ess
from peers import BURN_INS
from targets import problem
from virtual import Workers, constant, lognormal

import kmc

RESULTS = Path(__file__).parent / "results"
BUDGET = 20_000
PRICES = {"constant": constant, "lognormal": lognormal}
SECONDS = 0.001, 0.1, 1.0
COLUMNS = (
    "sampler",
    "target",
    "price",
    "seconds",
    "workers",
    "chains",
    "seed",
    "evaluations",
    "ess",
    "wall",
    "share",
    "share_alone",
    "unused",
)
KEY = COLUMNS[:7]


def run_kmc(
    target: str,
    price: str,
    seconds: float,
    workers: int,
    chains: int,
    seed: int,
    *,
    prefetch: bool = False,
    budget: int = BUDGET,
) -> dict:
    """One run of kmc with its defaults."""
    model, pool = problem(target), Workers(workers, PRICES[price](seconds), prefetch=prefetch)
    initial = model.initial(np.random.default_rng(seed), chains)
    idata = kmc.sample(
        model.log_density,
        model.dim,
        initial,
        draws=None,
        chains=chains,
        max_evaluations=budget,
        seed=seed,
        executor=pool,
        progress=False,
    )
    draws = idata.posterior["x"].transpose("chain", "draw", ...).values
    alone = None if pool.alone_at is None else pool.share(pool.alone_at)
    found = row_of(pool, draws, idata.attrs["n_evaluations"])
    return found | {"share_alone": alone, "unused": idata.attrs["n_evaluations_unused"]}


def run_asleep(target: str, price: str, seconds: float, workers: int, chains: int, seed: int) -> dict:
    """One run of kmc in real time: an evaluation sleeps as long as it costs."""
    model, cost = problem(target), PRICES[price](seconds)

    def log_density(x: np.ndarray) -> float:
        time.sleep(cost(x))
        return model.log_density(x)

    initial = model.initial(np.random.default_rng(seed), chains)
    with ThreadPoolExecutor(workers) as pool:
        began = time.perf_counter()
        idata = kmc.sample(
            log_density,
            model.dim,
            initial,
            draws=None,
            chains=chains,
            max_evaluations=BUDGET,
            seed=seed,
            executor=pool,
            progress=False,
        )
        wall = time.perf_counter() - began
    draws = idata.posterior["x"].transpose("chain", "draw", ...).values
    facts = idata.attrs
    found = {"evaluations": facts["n_evaluations"], "ess": bulk_ess(draws), "wall": wall}
    return found | {"share": 1.0 - facts["workers_waited"], "unused": facts["n_evaluations_unused"]}


def run_emcee(target: str, price: str, seconds: float, workers: int, walkers: int, seed: int, move: str) -> dict:
    """One run of emcee: half of the walkers are evaluated together. Burn-in is chosen in hindsight."""
    import emcee

    model, pool = problem(target), Workers(workers, PRICES[price](seconds))
    initial = model.initial(np.random.default_rng(seed), walkers)
    sampler = emcee.EnsembleSampler(
        walkers, model.dim, model.log_density, pool=pool, moves=getattr(emcee.moves, move)()
    )
    state = emcee.State(initial, random_state=np.random.RandomState(seed).get_state())
    sampler.run_mcmc(state, BUDGET // walkers - 1)
    draws = sampler.get_chain().swapaxes(0, 1)
    kept = [draws[:, round(part * draws.shape[1]) :] for part in BURN_INS]
    return row_of(pool, max(kept, key=bulk_ess), BUDGET // walkers * walkers)


def row_of(pool: Workers, draws: np.ndarray, evaluations: int) -> dict:
    """What a run has cost and given."""
    return {"evaluations": evaluations, "ess": bulk_ess(draws), "wall": pool.clock, "share": pool.share()}


def cells():
    """Settings of the rows, the most important first."""
    for sampler in ("kmc", "kmc, prefetch"):
        for target in ("logistic", "banana-2d", "fitzhugh-nagumo"):
            yield sampler, target, "lognormal", 1.0, 64, 64, 1
    for workers in (4, 32):
        yield "kmc, prefetch", "logistic", "constant", 0.1, workers, 4, 1
    for sampler in ("kmc, asleep", "kmc"):
        yield sampler, "logistic", "lognormal", 0.1, 64, 64, 1
    for price, seconds in itertools.product(("lognormal", "constant"), reversed(SECONDS)):
        yield "kmc", "logistic", price, seconds, 64, 64, 1
    for move, walkers in itertools.product(("DEMove", "StretchMove"), (128, 64, 32)):
        for target in ("logistic", "banana-2d"):
            yield f"emcee {move}", target, "lognormal", 1.0, 64, walkers, 1


def run(cell) -> dict:
    """The row of a cell."""
    sampler, *setting = cell
    if sampler == "kmc, asleep":
        found = run_asleep(*setting)
    elif sampler.startswith("kmc"):
        found = run_kmc(*setting, prefetch=sampler == "kmc, prefetch")
    else:
        found = run_emcee(*setting, move=sampler.split()[1])
    return dict(zip(KEY, cell, strict=True)) | found


def load(path: Path) -> list[dict]:
    """All rows, in the order of :func:`cells`; numbers are numbers."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        rows = [{name: _number(value) for name, value in row.items()} for row in csv.DictReader(file)]
    order = list(dict.fromkeys(cells()))
    return sorted(rows, key=lambda row: order.index(tuple(row[name] for name in KEY)))


def save(path: Path, rows: list[dict]) -> None:
    """Write all rows."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows([{name: _short(row.get(name, "")) for name in COLUMNS} for row in rows])


def table(rows: list[dict]) -> str:
    """In Markdown."""
    head = (
        "| sampler | target | price | mean, s | workers | chains | seed | busy after the freeze | busy | unused "
        "evaluations | virtual seconds to 1,000 effective samples |"
    )
    lines = [head, "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for row in rows:
        alone = f"{row['share_alone']:.0%}" if row.get("share_alone", "") != "" else ""
        setting = " | ".join(str(row[name]) for name in KEY)
        unused = f"{row['unused']:,}" if row["unused"] != "" else ""
        seconds = 1000 * row["wall"] / row["ess"]
        seconds = f"{seconds:.3g}" if seconds < 100 else f"{seconds:,.0f}"
        lines.append(f"| {setting} | {alone} | {row['share']:.0%} | {unused} | {seconds} |")
    return "\n".join(lines)


def write_page(rows: list[dict]) -> None:
    """The page of results."""
    text = f"""# Workers in virtual time

`python benchmarks/scaling.py`: {BUDGET:,} evaluations on simulated workers. Prices are constant or lognormal (sd 1 of
the logarithm); processor time that a sampler takes itself is added to the clock. "Busy" is the part of the workers'
time that evaluations take, unused ones included: those that `prefetch=True` made and no chain came to, on top of the
budget. emcee's chains are its walkers, of which half are evaluated at once; burn-in is chosen in hindsight, and its
effective sizes, of hardly more than the number of walkers, are too large if anything. "kmc, asleep" is in real time: 64
threads sleep as long as evaluations cost.

{table(rows)}
"""
    (RESULTS / "scaling.md").write_text(text, encoding="utf-8")


def _number(text: str):
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text


def _short(value):
    return f"{value:.5g}" if isinstance(value, float) else value


def main() -> None:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", action="store_true", help="write the page only")
    parser.add_argument("--most", type=int, default=1000, help="rows to add at most")
    options = parser.parse_args()
    path = RESULTS / "scaling.csv"
    rows = load(path)
    known = {tuple(row[name] for name in KEY) for row in rows}
    missing = [] if options.report else [cell for cell in dict.fromkeys(cells()) if cell not in known][: options.most]
    if missing:
        run_kmc("banana-2d", "constant", 0.0, 4, 4, 0, budget=1500)  # compiles
    for cell in missing:
        rows.append(run(cell))
        save(path, rows)
        print(rows[-1], flush=True)
    write_page(load(path))


if __name__ == "__main__":
    main()
