"""The rubric that students get, and the values of the staff's that they must not. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

HEADER = """\
# The policy of the assignment: points, weights, dtypes, limits.
# seed: everyone's run draws the same cases; staff may grade with another.
# weights: each exercise's points are split by these over its checks, and evenly over dtypes.
# targets: compute capabilities that every kernel is compiled for; 80 is an A100, 90 an H100 or H200.
# fused: launches and, as a multiple of the least bytes, traffic that a call may take.
# speed: times as fast as the baseline; no points below floor, all from target on.
"""


@dataclass(frozen=True)
class Hidden:
    """A value of the staff's rubric that is not in the public one: its place, its last key, the value."""

    place: str
    key: str
    value: Any


def public_rubric(staff: bytes) -> tuple[bytes, list[Hidden]]:
    """The public rubric's bytes and what it hides. `staff` must be a rubric that was read before."""
    document: dict[str, Any] = yaml.safe_load(staff)
    overlay = (document.pop("release", None) or {}).get("public") or {}
    public = _laid_over(document, overlay)
    shown = dict(_leaves(public))
    hidden = [Hidden(".".join(place), _key(place), value) for place, value in _leaves(document)
              if place not in shown or shown[place] != value]  # fmt: skip
    # What the public rubric says of another exercise under the same key tells nothing.
    said = {(_key(place), value) for place, value in shown.items()}
    hidden = [each for each in hidden if (each.key, each.value) not in said]
    text = yaml.safe_dump(public, sort_keys=False, allow_unicode=True, width=118, default_flow_style=None)
    return (HEADER + text).encode(), hidden


def is_seed(hidden: Hidden) -> bool:
    """Whether it is a number that tells by itself, wherever it stands."""
    return hidden.key == "seed"


def is_number(value: object) -> bool:
    """Whether a hidden value can be searched for beside its key."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _laid_over(document: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(document)
    for key, value in overlay.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = _laid_over(merged[key], value)
        else:
            merged[key] = value
    return merged


def _leaves(value: object, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, (*place, str(key)))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _leaves(inner, (*place, f"[{number}]"))
    else:
        yield place, value


def _key(place: tuple[str, ...]) -> str:
    return next((key for key in reversed(place) if not key.startswith("[")), "")
