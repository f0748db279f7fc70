"""Settings of the site: ``python docs/build.py`` builds it. No build needs a network."""

from __future__ import annotations

import re
import sys
import zlib
from pathlib import Path

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import tree  # noqa: E402
from warning_sections import filled  # noqa: E402

from kmc._version import __version__  # noqa: E402
from kmc.run import run_warnings  # noqa: E402

project, author, copyright = "kmc", "The kmc developers", "The kmc developers"
version = release = __version__
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "paper.md"]  # the paper has the form of a journal

# not of `docs`
ELSEWHERE = "adenylate_kinase|alanine_dipeptide|(bilby|cobaya|pypesto|umbridge)_problem"
sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": rf"/(?!{ELSEWHERE})\w+\.py",
    "within_subsection_order": "FileNameSortKey",
    "notebook_extensions": set(),
    "download_all_examples": False,
    "show_signature": False,
    # that page loads scripts from the network; each example tells its own time
    "write_computation_times": False,
    "capture_repr": (),
    "reset_modules": (),
}

html_theme = "furo"
# lines of a hundred columns fit
html_theme_options = {"light_css_variables": {"code-font-size": "77%"}}
html_title = f"kmc {__version__}"
html_favicon = "favicon.svg"
html_copy_source = False
html_show_sphinx = False
# browsers show it without a script; MathJax would be loaded from the network
html_math_renderer = "mathml"

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "none"  # the docstrings say more
numpydoc_show_class_members = False
numpydoc_xref_param_type = True
numpydoc_xref_aliases = {
    "array_like": ":term:`numpy:array_like`",
    "ndarray": "numpy.ndarray",
    "Generator": "numpy.random.Generator",
    "InferenceData": "arviz.InferenceData",
    "DataTree": "xarray.DataTree",
    "Dataset": "xarray.Dataset",
    "Axes": "matplotlib.axes.Axes",
    "Figure": "matplotlib.figure.Figure",
    "DataFrame": "pandas.DataFrame",
    "Model": "kmc.Model",
    "Kernel": "kmc.kernels.Kernel",
    "Basis": "kmc.bases.Basis",
}
numpydoc_xref_ignore = "all"  # names in sentences are not types

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_build" / "executed")
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True


def inventories():
    """Addresses of other packages' names: ``inventories/*.txt`` in the form that intersphinx reads.

    The first line of a file is the package's address; the others are ``name role location``. Only
    names that this site links to are listed: whole inventories are large, and a build must not wait
    for a network.
    """
    made = HERE / "_build" / "inventories"
    made.mkdir(parents=True, exist_ok=True)
    for path in sorted((HERE / "inventories").glob("*.txt")):
        address, *lines = path.read_text(encoding="utf-8").splitlines()
        rows = "".join(
            f"{name} {role} 1 {where} -\n" for name, role, where in map(str.split, lines)
        )
        head = (
            f"# Sphinx inventory version 2\n# Project: {path.stem}\n"
            "# Version: \n# The rest is compressed by zlib.\n"
        )
        target = made / f"{path.stem}.inv"
        target.write_bytes(head.encode() + zlib.compress(rows.encode()))
        yield path.stem, (address, str(target))


intersphinx_mapping = dict(inventories())


def setup(app):
    """Register the renderer of formulas, the table of warnings, and what docstrings need."""
    app.add_html_math_renderer(
        "mathml", inline_renderers=(_inline, None), block_renderers=(_block, None)
    )
    app.connect("source-read", fill_in_warnings)
    app.connect("source-read", fill_in_tree)
    app.connect("autodoc-process-docstring", escape_docstring, priority=900)  # after numpydoc


def fill_in_warnings(app, docname, source):
    """Put the table of warnings into its page, which is read again whenever the table changes."""
    if docname == "warnings":
        app.env.note_dependency(run_warnings.__file__)
        source[0] = filled(source[0])


def fill_in_tree(app, docname, source):
    """Put the tree of the package into the page on the architecture."""
    if docname == "architecture":
        source[0] = tree.filled(source[0])


def _inline(translator, node):
    translator.body.append(tex2mathml(_tex(node)))
    raise SkipNode


def _block(translator, node):
    translator.body.append(f'<div class="math">{tex2mathml(_tex(node), as_block=True)}</div>')
    raise SkipNode


def _tex(node):
    return node.astext().replace(r"\dots", r"\ldots")  # docutils does not know the former


_QUOTED = re.compile(r"(``.+?``|`[^`]+`)")
_MARKS = re.compile(r"\||(?<=\w)_(?!\w)|(?<=[ (])\*(?=\w+[,)])")


def escape_docstring(app, what, name, obj, options, lines):
    """Escape what docstrings write plainly and reStructuredText takes for a mark: abs(x) in bars,
    ``n_iter_``.
    """
    # inside an example; indent of the line above a literal block or a formula
    code, indent = False, None
    for i, line in enumerate(lines):
        here = len(line) - len(line.lstrip())
        code = bool(line.strip()) and (code or line.lstrip().startswith(">>>"))
        if line.strip() and indent is not None and here <= indent:
            indent = None
        if not code and indent is None and not line.lstrip().startswith(".."):
            parts = _QUOTED.split(line)
            lines[i] = "".join(
                part if k % 2 else _MARKS.sub(r"\\\g<0>", part) for k, part in enumerate(parts)
            )
        if indent is None and (
            line.rstrip().endswith("::") or line.lstrip().startswith(".. math::")
        ):
            indent = here
