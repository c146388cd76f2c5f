"""The page of one submission: scoreboard, failures with what shows them, speed, and facts of the compiled kernels."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import hardware
from ..verdict import Status
from . import plots
from .pages import page
from .view import Entry, View
from .words import place, symbol

MOST_PICTURE_BYTES = 2 << 20
SIZES_APART = 1.5  # nearer sizes show nothing of how time grows
_KINDS = {".svg": "image/svg+xml", ".png": "image/png"}


@dataclass(frozen=True)
class Section:
    """One exercise, as the template lays it out. `rows` has, per check, the entries of each column."""

    name: str
    entries: Sequence[Entry]
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Sequence[Entry]]]]
    timed: Sequence[Entry]
    roofline: str | None
    scaling: str | None
    kernels: Sequence[dict[str, Any]]
    unmeasured: Sequence[str]
    staff: Mapping[str, Sequence[str]]  # a fact, and the names of the entries that have it

    @property
    def points(self) -> float:
        """Points earned."""
        return sum(entry.item.points for entry in self.entries)

    @property
    def maximum(self) -> float:
        """Points there are."""
        return sum(entry.item.max_points for entry in self.entries)


def render(view: View) -> str:
    """The page."""
    sections = [_section(name, entries, view.device) for name, entries in view.by_exercise().items()]
    return page("student.html.j2", "student.js", view=view, sections=sections, symbol=symbol, place=place,
                anchor=anchor, told=told, pictures=lambda entry: pictures(view.folder, entry.item.pictures),
                speed_bar=lambda entry: plots.speed_bar(entry.item.evidence))  # fmt: skip


def anchor(entry: Entry) -> str:
    """The id of an entry's element."""
    return f"{entry.exercise}-{entry.name}"


def told(entry: Entry) -> bool:
    """Whether there is more to say than its line in the scoreboard says."""
    return entry.item.status is not Status.NOT_MEASURED and bool(
        entry.failed or (entry.item.message and not entry.timed)
    )


def pictures(folder: Path | None, names: Sequence[str]) -> list[str]:
    """The pictures as data URIs. One that is missing, too large or outside the result's folder is left out."""
    if folder is None:
        return []
    found = []
    for name in names:
        path = (folder / name).resolve()
        kind = _KINDS.get(path.suffix.lower())
        if (
            kind
            and path.is_relative_to(folder.resolve())
            and path.is_file()
            and path.stat().st_size < MOST_PICTURE_BYTES
        ):
            found.append(f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}")
    return found


def _section(name: str, entries: Sequence[Entry], device: str) -> Section:
    columns = list(dict.fromkeys(entry.item.dtype for entry in entries))
    checks = dict.fromkeys(entry.item.check for entry in entries)
    rows = [
        (check, [[e for e in entries if (e.item.check, e.item.dtype) == (check, dtype)] for dtype in columns])
        for check in checks
    ]
    timed = [entry for entry in entries if entry.timed]
    facts = [(entry.item.benchmark, entry.item.dtype, entry.item.evidence) for entry in timed]
    gpu = hardware.lookup(device)
    limited = [fact for fact in facts if gpu and fact[1] in gpu.tflop_s and fact[2]["tflop_s"] > 0]
    return Section(
        name, entries, columns, rows, timed,
        roofline=plots.roofline(limited, gpu) if gpu and limited else None,
        scaling=plots.scaling(facts) if _spread(facts) >= SIZES_APART else None,
        kernels=_kernels(entries),
        staff=_staff(entries),
        unmeasured=list(dict.fromkeys(f"{entry.item.check}: {entry.item.message}" for entry in entries
                                      if entry.item.status is Status.NOT_MEASURED and entry.item.message)),
    )  # fmt: skip


def _staff(entries: Sequence[Entry]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for entry in entries:
        for key, value in entry.item.staff.items():
            found.setdefault(f"{key}: {json.dumps(value, ensure_ascii=False)}", []).append(entry.name)
    return found


def _spread(timed: Sequence[tuple[str, str, plots.Facts]]) -> float:
    """By how much the largest of the timed problems moves more bytes than the smallest; 0 without any."""
    moved = [facts["gb_s"] * facts["time_us"] for _, _, facts in timed]
    return max(moved) / min(moved) if moved else 0.0


def _kernels(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """What the compiler made of each kernel, equal rows once: the case with the most registers of each dtype."""
    found: dict[tuple[object, ...], dict[str, Any]] = {}
    for entry in entries:
        for kernel in entry.item.evidence.get("kernels") or ():
            key = (kernel.get("kernel"), entry.item.dtype, kernel.get("target"), kernel.get("config"))
            if key not in found or (kernel.get("registers") or 0) > (found[key].get("registers") or 0):
                found[key] = {**kernel, "dtype": entry.item.dtype}
    return list(found.values())
