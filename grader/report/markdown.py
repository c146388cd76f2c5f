"""A result in GitHub's Markdown. Text of a submission stands only in code fences, where nothing has a meaning."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .text import number, one_line, shorten
from .view import Entry, View
from .words import details, symbol

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~@$&:])")


def render(view: View) -> str:
    """The whole report."""
    return document(view, 4000)


def document(view: View, most: int) -> str:
    """The report with at most so many characters an item; with 0, no details at all."""
    totals = view.shown_totals
    lines = [
        f"# {_escaped(view.title)}: {_escaped(view.submission)}",
        "",
        f"**{number(totals.earned)} points** of {number(totals.gradable)} gradable here, "
        f"{number(totals.maximum)} in all",
        "",
    ]
    for text in (view.note, *view.warnings):
        lines += [_escaped(text), ""] if text else []
    for exercise, entries in view.by_exercise().items():
        lines += [*_table(exercise, entries), "", *_failures(entries, most)]
    lines += ["", *(f"- {label}: {_escaped(value)}" for label, value in view.environment)]
    return "\n".join(lines) + "\n"


def _table(exercise: str, entries: Sequence[Entry]) -> list[str]:
    earned, most = (sum(getattr(entry.item, field) for entry in entries) for field in ("points", "max_points"))
    rows = [f"## {_escaped(exercise)}: {number(earned)} / {number(most)}", "",
            "| check | dtype | outcome | points |", "|---|---|---|--:|"]  # fmt: skip
    for entry in entries:
        item = entry.item
        speed = f" {item.evidence['speedup']:.2f}×" if entry.timed else ""
        rows.append(
            f"| {_escaped(item.check)} | {_escaped(item.benchmark or item.dtype)} "
            f"| {symbol(item.status)} {_escaped(item.status.value)}{speed} "
            f"| {number(item.points)} / {number(item.max_points)} |"
        )
    return rows


def _failures(entries: Sequence[Entry], most: int) -> list[str]:
    lines = []
    for entry in entries:
        if entry.failed and most:
            lines += [f"### {_escaped(entry.exercise)} {_escaped(entry.name)}", "",
                      *fenced(shorten(details(entry), most)), ""]  # fmt: skip
    return lines


def fenced(text: str) -> list[str]:
    """A code block that nothing in the text can close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", text, fence]


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", one_line(text))
