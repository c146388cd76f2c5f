"""The engine of the HTML pages: templates that escape everything, one file a page, no network and no foreign script."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from .text import number, plain

TEMPLATES = Path(__file__).parent / "templates"


def page(template: str, script: str, **values: object) -> str:
    """A page with the style and the named script put in, and a policy that lets nothing else run or load."""
    style, code = ((TEMPLATES / name).read_text(encoding="utf-8") for name in ("report.css", script))
    policy = "; ".join(
        ("default-src 'none'", "img-src data:", f"style-src {_hash(style)}", f"script-src {_hash(code)}",
         "base-uri 'none'", "form-action 'none'")
    )  # fmt: skip
    return _engine().get_template(template).render(style=style, script=code, policy=policy, **values)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _engine() -> Environment:
    def shown(value: object) -> object:
        return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    # Autoescaping holds for every template; the style and the script, our own files, are the only text marked safe.
    engine = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, finalize=shown,
                         trim_blocks=True, lstrip_blocks=True)  # fmt: skip
    engine.filters["number"] = number
    engine.filters["words"] = lambda text: str(text).replace("_", " ")
    return engine
