"""Build the site: ``python docs/build.py``, and ``--serve`` to look at it. Every warning is an
error.

Pages with code are executed; outputs are kept in ``docs/_build/executed`` until the page's code
changes. ``--fresh`` executes everything again, as it is needed after a change of the package. The
scripts of the gallery are run as well. ``--quick`` renders all without running anything.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from links import dead

HERE = Path(__file__).parent
BUILD = HERE / "_build"


def main() -> int:
    """Build, and serve if asked to; the exit code is Sphinx's."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fresh", action="store_true", help="forget what earlier builds have left")
    parser.add_argument("--quick", action="store_true", help="run neither pages nor scripts")
    parser.add_argument(
        "--serve", action="store_true", help="then serve the site at http://localhost:8000"
    )
    args = parser.parse_args()
    if args.fresh:
        for folder in (BUILD, HERE / "gallery"):
            shutil.rmtree(folder, ignore_errors=True)
    # Pages are executed by a process of their own, which must find the package of this checkout.
    path = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    if args.quick:
        command += ["-D", "plot_gallery=0", "-D", "nb_execution_mode=off"]
        # the language is known once a page was executed
        command += ["-D", "suppress_warnings=myst-nb.lexer"]
    command += [HERE, BUILD / "html"]
    # pictures go into the pages
    own = {"PYTHONPATH": path, "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    code = subprocess.run(command, env={**os.environ, **own}).returncode
    if code == 0:
        found = list(dead(BUILD / "html"))
        print(
            "\n".join(
                [*(f"dead link: {line}" for line in found), str(BUILD / "html" / "index.html")]
            )
        )
        code = int(bool(found))
    if code == 0 and args.serve:
        handler = partial(SimpleHTTPRequestHandler, directory=BUILD / "html")
        with ThreadingHTTPServer(("localhost", 8000), handler) as server:
            print("http://localhost:8000 until Ctrl-C")
            with suppress(KeyboardInterrupt):
                server.serve_forever()
    return code


if __name__ == "__main__":
    sys.exit(main())
