"""Makes `docs/rubric.md` of the models in `grader/rubric.py`: type, default and meaning of every key. Trusted side."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from ..rubric import Rubric

INTRODUCTION = """\
# The rubric

`rubric.yaml` is the policy of an assignment: points, weights, limits, tolerances. This page is made from the models
that read it: `make docs`. A key that is not here, or a value that may not be, is refused with its line. What is right
stands in `reference/`, not here.
"""
_LIMITS = (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<"))
_TYPES = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false"}

Schema = dict[str, Any]


def page() -> str:
    """The whole document."""
    schema = Rubric.model_json_schema()
    return INTRODUCTION + "".join(_sections(schema, schema["$defs"], ""))


def _sections(model: Schema, models: Schema, place: str) -> Iterator[str]:
    """The table of a model, then those of the models in it, in order."""
    rows = []
    inner = []
    for key, value in model["properties"].items():
        name, below = _model(value)
        if name:
            inner.append((models[name], f"{place}{key}{below}"))
        default = "**must be given**" if key in model.get("required", ()) else _default(value, name)
        rows.append(f"| `{key}` | {_type(value)} | {default} | {value['description']} |\n")
    about = f"\n{' '.join(model['description'].split())}\n" if place else ""
    title = f"\n## {place.rstrip('.')}\n" if place else "\n## At the top\n"
    yield f"{title}{about}\n| key | type | default | meaning |\n|---|---|---|---|\n{''.join(rows)}"
    for each, where in inner:
        yield from _sections(each, models, f"{where}.")


def _model(value: Schema) -> tuple[str, str]:
    """The name of the model that a value is of, and the keys on the way to it; "" where it is of none."""
    if "$ref" in value:
        return value["$ref"].rpartition("/")[2], ""
    if "items" in value:
        name, below = _model(value["items"])
        return name, f"[…]{below}"
    if isinstance(value.get("additionalProperties"), dict):
        name, below = _model(value["additionalProperties"])
        return name, f".…{below}"
    return "", ""


def _type(value: Schema) -> str:
    if "$ref" in value:
        return "keys as below"
    if "anyOf" in value:
        return " or ".join(dict.fromkeys(_type(each) for each in value["anyOf"] if each.get("type") != "null"))
    if "const" in value or "enum" in value:
        return ", ".join(f"`{each}`" for each in value.get("enum", [value.get("const")]))
    if value.get("type") == "array":
        return f"list of: {_type(value['items'])}"
    if value.get("type") == "object":
        keys = f" of {_type(value['propertyNames'])}" if "enum" in value.get("propertyNames", {}) else ""
        of = value.get("additionalProperties")
        return f"mapping{keys} to: {_type(of)}" if isinstance(of, dict) else "mapping"
    limits = [f"{sign} {value[key]:g}" for key, sign in _LIMITS if key in value]
    return " ".join([_TYPES[value["type"]], ", ".join(limits)]).strip()


def _default(value: Schema, model: str) -> str:
    default = value.get("default")
    if model or default is None or default in ({}, [], ""):
        return "—"
    return f"`{json.dumps(default)}`"


if __name__ == "__main__":
    sys.stdout.write(page())
