"""Makes text that a submission may have written safe to show: no control characters, no escape sequences, bounded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# What a terminal obeys: CSI sequences (colours, cursor) and OSC sequences (titles, links).
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
MOST_CHARACTERS = 4000


def plain(text: str) -> str:
    """Without escape sequences; other characters that do not print, as those that turn the direction, become `·`."""
    text = _ESCAPES.sub("", text).replace("\r\n", "\n").expandtabs(4)
    return "".join(c if c == "\n" or c.isprintable() else "·" for c in text)


def shorten(text: str, most: int = MOST_CHARACTERS) -> str:
    """The beginning, with a note of how much is left out."""
    return text if len(text) <= most else f"{text[:most]} … ({len(text) - most} more characters)"


def clean(value: Any) -> Any:
    """JSON-like data with every text in it made plain and short."""
    if isinstance(value, str):
        return plain(shorten(value))
    if isinstance(value, Mapping):
        return {clean(str(key)): clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    return value


def one_line(text: str) -> str:
    """With spaces for line breaks."""
    return " ".join(text.split())


def number(value: float) -> str:
    """Two decimals at most, none where they are zero."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
