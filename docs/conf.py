"""Sphinx: `make docs` builds the site into build/docs; a warning is an error."""

import os
import re
import sys
import tempfile
from pathlib import Path

from pygments import token
from pygments.lexer import RegexLexer

sys.path.insert(0, str(Path(__file__).parent))
import inventories
import site_pages

os.environ["NABLA_MLIR_PROGRESS"] = "0"  # the pages show results alone, also on a slow machine
# Kernels warn of TCP without encryption, though they listen on this machine alone.
_folder = tempfile.TemporaryDirectory(prefix="nabla_mlir_docs_")
os.environ["IPYTHONDIR"] = _folder.name
Path(_folder.name, "profile_default").mkdir()
Path(_folder.name, "profile_default", "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 'ERROR'\n")

project = "nabla_mlir"
author = "nabla_mlir"
extensions = ["myst_nb", "sphinx.ext.intersphinx", "sphinx_copybutton", "sphinx_design"]
intersphinx_mapping = inventories.write_all(Path(__file__).parent / "generated")  # of files: a build asks no network
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "force"  # the pages of Learn are notebooks: what they show is what this very code gave
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_execution_timeout = 120
nb_merge_streams = True
exclude_patterns = ["changes", "gallery"]
nitpicky = True
html_theme = "pydata_sphinx_theme"
html_title = "nabla_mlir"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 7,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {"index": [], "compared": [], "sharp_edges": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
highlight_language = "text"


class MlirLexer(RegexLexer):
    """The text of MLIR."""

    name, aliases, flags = "MLIR", ["mlir"], re.M
    tokens = {  # noqa: RUF012
        "root": [
            (r"//.*$", token.Comment.Single),
            (r'"[^"\n]*"', token.String),
            (r"[%@#^][\w$.#-]+", token.Name.Variable),
            (r"!?\b(?:tensor|vector|memref)<[^>]*>|![\w.]+", token.Keyword.Type),
            (r"\b[a-z_]+(?:\.[a-z_0-9]+)+\b", token.Name.Function),
            (r"\b(?:module|return|dense|array|true|false)\b", token.Keyword),
            (r"-?\b\d[\w.+-]*", token.Number),
            (r"\s+|.", token.Text),
        ]
    }


def link_names(app, page, source):
    """Names of NumPy, SciPy, JAX and Python lead to their documentation."""
    source[0] = inventories.linked(source[0])


def setup(app):
    """The pages that are made are there before Sphinx looks for pages."""
    site_pages.write_all()
    app.add_lexer("mlir", MlirLexer)
    app.connect("source-read", link_names)
