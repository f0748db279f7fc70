"""``kernelmc resume``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from kmc._names import COMMAND
from kmc.cli import results, targets
from kmc.cli.options import add_max_time, add_quiet, positive, subparser

_EXAMPLE = f"""\
  {COMMAND} resume pendulum.zarr --model pendulum.py:log_density
      resumes a run that was interrupted or killed, and prints the summary; of a finished run, only that
  {COMMAND} resume pendulum.zarr --trust --draws 1000 --output draws.nc
      makes 1000 more draws per chain of a finished run, with the log-density that is pickled in the store
"""


def add_parser(commands: Any) -> None:
    """Add the subcommand."""
    parser = subparser(
        commands,
        "resume",
        _run,
        "resume the run in a store, or extend it",
        "Resume a run that was interrupted or killed: the draws are those that it would have made. A finished run\n"
        "gets more draws with --draws or --max-evaluations. The log-density is the one that --model names.\n"
        "With --trust it is the one in the store, which is pickled there: a pickle can run any code when it is loaded.",
        _EXAMPLE,
    )
    parser.add_argument("store", type=Path, metavar="STORE", help=f"what was given to {COMMAND} sample --store")
    parser.add_argument(
        "--model",
        type=targets.as_name,
        metavar="FILE.py:NAME",
        help="the log-density or kmc.Model",
    )
    parser.add_argument(
        "--trust", action="store_true", help="load pickles in the store: the log-density, parts of the sampler"
    )
    parser.add_argument("--draws", type=positive, metavar="N", help="further draws per chain of a finished run")
    parser.add_argument("--max-evaluations", type=positive, metavar="N", help="further evaluations of a finished run")
    parser.add_argument("--executor", type=positive, metavar="N", help="processes that evaluate the log-density")
    add_max_time(parser)
    results.add_output(parser)
    add_quiet(parser)


def _run(args: argparse.Namespace) -> int:
    import kmc
    from kmc.run.store.commit import read_commit

    header, commit = read_commit(args.store)
    output = results.Output(args.output, args.overwrite)
    output.check()
    more = {name: value for name in ("draws", "max_evaluations") if (value := getattr(args, name)) is not None}
    if more and not commit.finished:
        raise ValueError(f"{str(args.store)!r} holds a run that is not finished: resume it without {_flag(more)} first")
    targets.look_here()
    target = None if args.model is None else targets.load(args.model)
    how = {"executor": args.executor, "max_time": args.max_time, "progress": not args.quiet, "trust": args.trust}
    with output.kept_after_errors():
        if more:
            idata = kmc.extend(args.store, target=target, **more, **how)
        elif commit.finished:
            idata = kmc.load(args.store)
        else:
            idata = kmc.sample(**_asked(args.store, header, target, args.trust), store=args.store, resume=True, **how)
    return output.deliver(idata, args.store)


def _flag(options: dict[str, Any]) -> str:
    return "--" + next(iter(options)).replace("_", "-")


def _asked(store: Path, header: dict[str, Any], target: Any, trust: bool) -> dict[str, Any]:
    """What the run was asked for when it began, as arguments of :func:`kmc.sample`."""
    from kmc.run.store.open import stored_model, stored_sampler

    settings = header["settings"]
    asked = {
        name: settings[name] for name in ("chains", "independent_runs", "draws", "warmup", "max_evaluations", "initial")
    }
    target = stored_model(store, header, trust) if target is None else target
    if target is None:
        raise ValueError(f"{str(store)!r} holds no log-density that can be loaded here: pass --model FILE.py:NAME")
    if not hasattr(target, "dim"):
        asked["dim"] = settings["dim"]
    sampler = stored_sampler(store, header, trust)
    if sampler is None:
        raise ValueError(
            f"{str(store)!r} holds no sampler that can be loaded here: resume it by kmc.sample(resume=True)"
        )
    return {"target": target, "sampler": sampler, "save_warmup": header["save_warmup"], **asked}
