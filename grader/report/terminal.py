"""The scoreboard and the text of a failure, for a terminal."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..result import ExerciseResult, ItemResult, Result
from ..verdict import Status, Verdict
from .text import number as _number
from .text import plain as _plain

WIDTH = 110
_STYLES = {Status.PASSED: "green", Status.NOT_MEASURED: "dim", Status.INFRASTRUCTURE_ERROR: "magenta"}


def explain(verdict: Verdict, reproduce: str, files: Sequence[Path] = ()) -> str:
    """What was seen and expected, where, what to do about it, and how to see it again. `files` are its attachments."""
    lines = [f"{verdict.status}: {verdict.message}"]
    if where := verdict.evidence.get("where"):
        lines.append(f"  wrong: {where}")
    lines += [f"    {line}" for line in verdict.evidence.get("map", ())]
    if verdict.hint:
        lines += textwrap.wrap(verdict.hint, WIDTH, initial_indent="  hint: ", subsequent_indent="        ")
    if printed := verdict.evidence.get("printed"):
        lines.append(textwrap.indent(f"printed before it ended:\n{_plain(str(printed))[-600:]}", "  "))
    if reproduce:
        lines.append(f"  reproduce: {reproduce}")
    lines += [f"  {'debug: python -m pdb' if file.suffix == '.py' else 'picture:'} {file}" for file in files]
    return _plain("\n".join(lines))


def scoreboard(result: Result, *, color: bool) -> str:
    """A table of all exercises and checks, one column a dtype, one of those without dtypes, and the totals."""
    buffer = io.StringIO()
    console = Console(file=buffer, width=WIDTH, force_terminal=color, no_color=not color, highlight=False)
    console.print(Text(result.submission.id, style="italic"))
    with_dtypes = {name: exercise for name, exercise in result.exercises.items() if exercise.items[0].dtype}
    without = {name: exercise for name, exercise in result.exercises.items() if name not in with_dtypes}
    for exercises in (with_dtypes, without):
        if exercises:
            console.print(_table(exercises))
    timed = [(name, item) for name, exercise in result.exercises.items() for item in exercise.items
             if "speedup" in item.evidence]  # fmt: skip
    if timed:
        console.print(_speed_table(timed))
        for _, item in timed:
            if "profile" in item.evidence:
                console.print(Text(f"profile it: {item.evidence['profile']}"), soft_wrap=True)
    totals = result.totals
    console.print(
        f"points: {_number(totals.earned)} earned / {_number(totals.gradable)} gradable here / "
        f"{_number(totals.maximum)} maximum"
    )
    return "\n" + buffer.getvalue()


def _table(exercises: Mapping[str, ExerciseResult]) -> Table:
    dtypes = list(dict.fromkeys(item.dtype for exercise in exercises.values() for item in exercise.items))
    table = Table()
    table.add_column("exercise")
    table.add_column("check")
    for dtype in dtypes:
        table.add_column(dtype or "status")
    table.add_column("points", justify="right")
    for name, exercise in exercises.items():
        checks = list(dict.fromkeys(item.check for item in exercise.items))
        for row, check in enumerate(checks):
            of_check = [item for item in exercise.items if item.check == check]
            table.add_row(
                Text(name if row == 0 else ""),
                Text(check),
                *(_cell([item for item in of_check if item.dtype == dtype]) for dtype in dtypes),
                Text(_points(of_check)),
                end_section=row == len(checks) - 1,
            )
    return table


def _speed_table(timed: Sequence[tuple[str, ItemResult]]) -> Table:
    """What was timed: the time of a call, the speedup with its interval against the thresholds, and the rates."""
    table = Table()
    for heading in ("benchmark", "µs", "speedup", "floor–target", "GB/s", "TFLOP/s", "of limit", "baselines, µs"):
        table.add_column(heading, justify="left" if heading in ("benchmark", "baselines, µs") else "right")
    for exercise, item in timed:
        facts = item.evidence
        table.add_row(
            Text(f"{exercise}\n{item.benchmark}", overflow="fold"),
            f"{facts['time_us']:.1f}",
            f"{facts['speedup']:.2f} ({facts['low']:.2f}–{facts['high']:.2f})" + (" ?" if facts["borderline"] else ""),
            f"{facts['floor']:g}–{facts['target']:g}",
            f"{facts['gb_s']:.0f}",
            f"{facts['tflop_s']:.1f}",
            f"{facts['percent_of_limit']:.0f} %",
            ", ".join(f"{name} {_microseconds(time_us)}" for name, time_us in facts["baselines_us"].items()),
        )
    return table


def _microseconds(time_us: float | str) -> str:
    """A time, or a dash for a baseline that gave a reason instead."""
    return "–" if isinstance(time_us, str) else f"{time_us:.0f}"


def _cell(items: Sequence[ItemResult]) -> Text:
    """One line an item: its status, and for a timed one its speedup."""
    lines = []
    for item in items:
        text = item.status.value
        if "speedup" in item.evidence:
            text += f" {item.evidence['speedup']:.2f}×"
        lines.append(Text(text, style=_STYLES.get(item.status, "red")))
    return Text("\n").join(lines)


def _points(items: Sequence[ItemResult]) -> str:
    return f"{_number(sum(i.points for i in items))} / {_number(sum(i.max_points for i in items))}"
