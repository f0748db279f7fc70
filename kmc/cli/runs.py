"""The subcommands that make draws: ``kernelmc sample``, ``resume`` and ``demo``.

Numba, ArviZ and Matplotlib take seconds to import: a subcommand imports what it needs when it runs.
"""

from __future__ import annotations

import argparse
import sys
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from kmc._names import COMMAND
from kmc.cli.options import add_max_time, add_quiet, natural, positive, subparser
from kmc.cli.results import Output, add_output

# Options that are passed unchanged to kmc.sample, if given: otherwise its own defaults apply.
_HANDED_ON = (
    "dim",
    "warmup",
    "chains",
    "max_evaluations",
    "max_time",
    "seed",
    "sampler",
    "independent_runs",
    "executor",
    "store",
)

_SAMPLE_EXAMPLE = f"""\
  {COMMAND} sample pendulum.py:log_density --dim 4 --max-evaluations 20000 --output draws.nc
      pendulum.py defines log_density(x), for an array x of shape (4,)
  {COMMAND} sample --model pendulum.py:model --draws 2000 --executor 8 --store pendulum.zarr
      pendulum.py defines model = kmc.Model(...); eight processes evaluate it; "{COMMAND} resume" can resume the run
"""  # noqa: E501


def add_sample(commands: Any) -> None:
    """Add ``kernelmc sample``."""
    parser = subparser(
        commands,
        "sample",
        _sample,
        "sample your own log-density",
        "Sample a log-density: a function of one array, or a kmc.Model. Prints a summary and "
        "writes\nthe draws.",
        _SAMPLE_EXAMPLE,
    )
    _add_target(parser)
    parser.add_argument(
        "--draws",
        type=positive,
        metavar="N",
        help="draws per chain (default: as many as --max-evaluations or --max-time allows; 1000 "
        "without these)",
    )
    parser.add_argument(
        "--warmup",
        type=natural,
        metavar="N",
        help="sweeps of warm-up (default: the sampler decides)",
    )
    parser.add_argument("--chains", type=positive, metavar="N", help="(default: 4)")
    parser.add_argument(
        "--max-evaluations", type=positive, metavar="N", help="budget, warm-up included"
    )
    add_max_time(parser)
    parser.add_argument("--seed", type=natural, metavar="S", help="random seed")
    parser.add_argument(
        "--sampler",
        metavar="NAME",
        help="kernel-hmc (default), adaptive-metropolis, kameleon, random-walk, ...",
    )
    parser.add_argument(
        "--independent-runs",
        type=positive,
        metavar="N",
        help="independent runs that share the chains",
    )
    parser.add_argument(
        "--executor", type=positive, metavar="N", help="processes that evaluate the log-density"
    )
    parser.add_argument(
        "--initial",
        type=Path,
        metavar="FILE",
        help="start points, one per row: .npy, or .csv without a header",
    )
    parser.add_argument(
        "--store", type=Path, metavar="DIR", help="Zarr store that is written while sampling"
    )
    add_output(parser)
    add_quiet(parser)


def _add_target(parser: argparse.ArgumentParser) -> None:
    """Add the log-density, as a function or a model, and the number of its parameters."""
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument(
        "target",
        nargs="?",
        type=as_name,
        metavar="MODULE:FUNCTION",
        help="a function, also as FILE.py:FUNCTION",
    )
    target.add_argument("--model", type=as_name, metavar="FILE.py:NAME", help="a kmc.Model")
    parser.add_argument(
        "--dim", type=positive, metavar="D", help="number of parameters, for a function"
    )


def _sample(args: argparse.Namespace) -> int:
    import kmc

    if args.output is None and args.store is None:
        args.parser.error("give --output or --store: the draws have to go somewhere")
    options = {name: value for name in _HANDED_ON if (value := getattr(args, name)) is not None}
    if (args.draws, args.max_evaluations, args.max_time) != (None, None, None):
        options["draws"] = args.draws
    if args.initial is not None:
        options["initial"] = _read_points(args.initial)
    output = Output(args.output, args.overwrite)
    output.check()
    with output.kept_after_errors():
        idata = kmc.sample(load(args.target or args.model), progress=not args.quiet, **options)
    return output.deliver(idata, args.store)


def _read_points(path: Path) -> Any:
    import numpy as np

    if path.suffix not in (".npy", ".csv"):
        raise ValueError(f"--initial {str(path)!r}: expected a file .npy or .csv")
    try:
        return np.load(path) if path.suffix == ".npy" else np.loadtxt(path, delimiter=",", ndmin=2)
    except ValueError as error:
        raise ValueError(f"--initial {str(path)!r}: {error}") from error


_RESUME_EXAMPLE = f"""\
  {COMMAND} resume pendulum.zarr --model pendulum.py:log_density
      resumes a run that was interrupted or killed, and prints the summary; of a finished run, prints it only
  {COMMAND} resume pendulum.zarr --trust --draws 1000 --output draws.nc
      makes 1000 more draws per chain of a finished run, with the log-density that is pickled in the store
"""  # noqa: E501


def add_resume(commands: Any) -> None:
    """Add ``kernelmc resume``."""
    parser = subparser(
        commands,
        "resume",
        _resume,
        "resume the run in a store, or extend it",
        "Resume a run that was interrupted or killed: the draws are those of an uninterrupted "
        "run. A finished run\n"
        "gets more draws with --draws or --max-evaluations. The log-density is given by --model.\n"
        "With --trust it is loaded from a pickle in the store: loading a pickle can run any code.",
        _RESUME_EXAMPLE,
    )
    parser.add_argument(
        "store", type=Path, metavar="STORE", help=f"path given to {COMMAND} sample --store"
    )
    parser.add_argument(
        "--model",
        type=as_name,
        metavar="FILE.py:NAME",
        help="the log-density or kmc.Model",
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help="load pickles in the store: the log-density, parts of the sampler",
    )
    parser.add_argument(
        "--draws", type=positive, metavar="N", help="further draws per chain of a finished run"
    )
    parser.add_argument(
        "--max-evaluations",
        type=positive,
        metavar="N",
        help="further evaluations of a finished run",
    )
    parser.add_argument(
        "--executor", type=positive, metavar="N", help="processes that evaluate the log-density"
    )
    add_max_time(parser)
    add_output(parser)
    add_quiet(parser)


def _resume(args: argparse.Namespace) -> int:
    import kmc
    from kmc.run.store.commit import read_commit

    header, commit = read_commit(args.store)
    output = Output(args.output, args.overwrite)
    output.check()
    more = {
        name: value
        for name in ("draws", "max_evaluations")
        if (value := getattr(args, name)) is not None
    }
    if more and not commit.finished:
        raise ValueError(
            f"{str(args.store)!r} holds a run that is not finished: resume it without "
            f"{_flag(more)} first"
        )
    if args.trust:  # the pickled log-density may be a function of a file here
        _look_here()
    target = None if args.model is None else load(args.model)
    how = {
        "executor": args.executor,
        "max_time": args.max_time,
        "progress": not args.quiet,
        "trust": args.trust,
    }
    with output.kept_after_errors():
        if more:
            idata = kmc.extend(args.store, target=target, **more, **how)
        elif commit.finished:
            idata = kmc.load(args.store)
        else:
            idata = kmc.sample(
                **_asked(args.store, header, target, args.trust),
                store=args.store,
                resume=True,
                **how,
            )
    return output.deliver(idata, args.store)


def _flag(options: dict[str, Any]) -> str:
    return "--" + next(iter(options)).replace("_", "-")


def _asked(store: Path, header: dict[str, Any], target: Any, trust: bool) -> dict[str, Any]:
    """Return the settings with which the run began, as arguments of :func:`kmc.sample`."""
    from kmc.run.store.open import stored_model, stored_sampler

    settings = header["settings"]
    asked = {
        name: settings[name]
        for name in ("chains", "independent_runs", "draws", "warmup", "max_evaluations", "initial")
    }
    target = stored_model(store, header, trust) if target is None else target
    if target is None:
        raise ValueError(
            f"{str(store)!r} holds no log-density that can be loaded here: pass --model "
            f"FILE.py:NAME"
        )
    if not hasattr(target, "dim"):
        asked["dim"] = settings["dim"]
    sampler = stored_sampler(store, header, trust)
    if sampler is None:
        raise ValueError(
            f"{str(store)!r} holds no sampler that can be loaded here: resume it by "
            f"kmc.sample(resume=True)"
        )
    return {"target": target, "sampler": sampler, "save_warmup": header["save_warmup"], **asked}


def add_demo(commands: Any) -> None:
    """Add ``kernelmc demo``."""
    parser = subparser(
        commands,
        "demo",
        _demo,
        "lynx and hares: sample a real posterior and compare with the published one",
        "Fit the Lotka-Volterra equations to a century-old record of lynx and hare pelts. Writes "
        "the\n"
        "draws (kmc-demo.nc) and a figure (kmc-demo.png).",
        f"  {COMMAND} demo --directory results --seed 7",
    )
    parser.add_argument(
        "--directory", default=".", metavar="D", help="where to write (default: here)"
    )
    parser.add_argument(
        "--evaluations", type=positive, default=2000, metavar="N", help="budget (default: 2000)"
    )
    parser.add_argument(
        "--seed", type=natural, default=1900, metavar="S", help="random seed (default: 1900)"
    )
    add_quiet(parser)


def _demo(args: argparse.Namespace) -> None:
    from kmc import demo

    demo.run(
        args.directory, max_evaluations=args.evaluations, seed=args.seed, progress=not args.quiet
    )


class Name(NamedTuple):
    """The name of an object in a module or in a Python file."""

    where: str  # package.module or path/to/file.py
    what: str  # a name in it, dotted for an attribute


def as_name(text: str) -> Name:
    """Parse ``module:name`` or ``file.py:name``."""
    where, colon, what = text.rpartition(":")
    if not (colon and where and what):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form module:name or file.py:name")
    return Name(where, what)


def load(name: Name) -> Any:
    """Import the object.

    Modules are also searched in the current folder, after all other places: a file that happens to
    have the name of an installed package is not imported. The imports of a file are searched beside
    it first, as those of a script. A file is imported as a module, by its name, so that the
    processes of an executor find its functions.

    Raises
    ------
    FileNotFoundError, ImportError, AttributeError
        With the name and place that were searched for.
    """
    if name.where.endswith(".py"):
        module = _import_file(Path(name.where))
    else:
        _look_here()
        module = import_module(name.where)
    try:
        return reduce(getattr, name.what.split("."), module)
    except AttributeError as error:
        raise AttributeError(f"{name.where} has no {name.what!r}") from error


def _import_file(path: Path):
    if not path.is_file():
        raise FileNotFoundError(f"{str(path)!r}: there is no such file")
    directory = str(path.resolve().parent)
    if directory not in sys.path:
        sys.path.insert(0, directory)
    module = import_module(path.stem)
    found = getattr(module, "__file__", None)
    if found is None or not path.samefile(found):
        raise ImportError(
            f"{str(path)!r} has the name of another module ({found or 'built in'}): rename it"
        )
    return module


def _look_here() -> None:
    """Search modules in the current folder, too, after all other places."""
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
