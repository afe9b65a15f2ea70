"""The page: the document, the scripts and the styles in one file, with a policy that forbids all requests to the network."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib import resources
from typing import Any

# Prism (MIT) highlights code. The other scripts belong to nabla_mlir; each uses only those before it.
_SCRIPTS = ("prism.min.js", "model.js", "views.js", "charts.js", "app.js")
_STYLES = ("style.css",)


def page_of(document: dict[str, Any]) -> str:
    """The text of the page for a document."""
    script = "\n".join(f"{_part(name)}\n" for name in _SCRIPTS)
    style = "\n".join(map(_part, _STYLES))
    # The text "</" would end the script element that contains the data.
    data = json.dumps(document, separators=(",", ":")).replace("<", "\\u003c")
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {"TITLE": html.escape(document["title"]), "POLICY": policy, "STYLE": style, "SCRIPT": script, "DATA": data}
    page = _part("page.html")
    for name, text in parts.items():  # the data are inserted last, so that nothing inside them is replaced
        page = page.replace(f"@@{name}@@", text)
    return page


def _part(name: str) -> str:
    return resources.files(__package__).joinpath("page", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
