"""The text of one item, as formats without markup of their own show it."""

from __future__ import annotations

import re
from collections.abc import Callable

from ..verdict import Status
from .text import MOST_CHARACTERS
from .view import Entry

_PLACE = re.compile(r"^([\w./-]+\.py):(\d+)\b")


def details(entry: Entry) -> str:
    """Status, message, hint, how to see it again, a line each, and what was printed."""
    item = entry.item
    lines = [item.status.value + (f": {item.message}" if item.message else "")]
    if where := item.evidence.get("where"):
        lines.append(f"wrong: {where}")
    if item.hint:
        lines.append(f"hint: {item.hint}")
    if item.pitfall:
        lines.append(f"pitfall: {item.pitfall}")
    if item.reproduce:
        lines.append(f"reproduce: {item.reproduce}")
    if printed := item.evidence.get("printed"):  # last: what is too long is cut at its end
        lines.append(f"printed before it ended:\n{printed}")
    return "\n".join(lines)


def symbol(status: Status) -> str:
    """One character that tells outcomes apart without colour."""
    return {Status.PASSED: "✓", Status.NOT_MEASURED: "–", Status.INFRASTRUCTURE_ERROR: "!"}.get(status, "✗")


def place(entry: Entry) -> tuple[str, int] | None:
    """File and line of the submission that the item names, where it names one."""
    evidence = entry.item.evidence
    refused = evidence.get("refused") or [{}]
    frames = (evidence.get("error") or {}).get("frames") or []
    for found in (*reversed(frames), refused[0]):
        if found.get("file") and isinstance(found.get("line"), int):
            return str(found["file"]), found["line"]
    named = _PLACE.match(entry.item.message)
    return (named[1], int(named[2])) if named else None


def within(most_bytes: int, render: Callable[[int], str]) -> str:
    """What `render` makes with as many characters an item as `most_bytes` allow; it may be larger with none at all."""
    most = MOST_CHARACTERS
    while len((text := render(most)).encode()) > most_bytes and most:
        most //= 4
    return text
