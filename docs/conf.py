"""How Sphinx builds the documentation. `make docs` does it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import milepost
import milepost.runner
import milepost.sdk

if TYPE_CHECKING:
    from docutils.nodes import Element, TextElement
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

project = "Milepost"
version = release = milepost.__version__
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["README.md"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"Milepost {version}"
html_copy_source = False
html_show_copyright = False

# The docstrings write names in single backticks.
default_role = "py:obj"
add_module_names = False
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True}
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False

# Names that no page of ours can explain: Python's own, and type variables.
nitpick_ignore_regex = [
    ("py:.*", r"(bool|bytes|dict|float|frozenset|int|list|object|set|str|tuple|type|None|True|False)"),
    ("py:.*", r"(BaseException|Exception|ImportError|KeyError|RuntimeError|TypeError|ValueError|OSError)"),
    ("py:.*", r"(collections\.abc|datetime|logging|os|types|typing|builtins)\..*"),
    ("py:.*", r"(datetime|timedelta|Any|Callable|Iterable|List|Literal|Mapping|Sequence)"),
    # Parts of the inside that docstrings name.
    ("py:.*", r"milepost\.(abc\.R|(calls|entry|sdk\.[a-z]+)(\..*)?)"),
    ("py:.*", r"(CONTEXT_KEYS|DagFactory|InstanceState|OPTIONS|Partial|Partial\.expand|Task|TaskFunction|Archive\.id)"),
]

_PUBLIC = {name: f"milepost.sdk.{name}" for name in milepost.sdk.__all__} | {
    name: f"milepost.{name}" for name in milepost.__all__
}


def _by_public_name(app: Sphinx, env: BuildEnvironment, node: Element, content: TextElement) -> Element | None:
    """Lead a reference by the name of an inner module, or by a bare name, to the page of the public name."""
    if node.get("refdomain") != "py":
        return None
    target = re.sub(r"^milepost\.(?:[a-z_]+\.)*", "", node["reftarget"])
    head, _, member = target.partition(".")
    if head not in _PUBLIC:
        return None
    full = _PUBLIC[head] + (f".{member}" if member else "")
    domain: Any = env.get_domain("py")
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", full, node, content)


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("missing-reference", _by_public_name)
