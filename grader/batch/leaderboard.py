"""The leaderboard: speedups of those who asked to be on it, under names they chose. Trusted side."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import GraderError
from .book import Row


def load_participants(path: Path) -> dict[str, str]:
    """Pseudonym per participant, from a CSV with the headings `who` (id, email, login or submission) and `pseudonym`.

    Raises GraderError.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise GraderError(f"--leaderboard {path}: can't be read: {error}") from None
    if not rows or not {"who", "pseudonym"} <= set(rows[0]):
        raise GraderError(f"--leaderboard {path}: its first line must be `who,pseudonym`, and somebody must follow")
    names: dict[str, str] = {}
    for number, row in enumerate(rows, 2):
        who, pseudonym = (row["who"] or "").strip().casefold(), (row["pseudonym"] or "").strip()
        if not who or not pseudonym:
            raise GraderError(f"--leaderboard {path}:{number}: needs both, who and pseudonym")
        if pseudonym in names.values() or who in names:
            raise GraderError(f"--leaderboard {path}:{number}: {pseudonym!r} or {who!r} is there twice")
        names[who] = pseudonym
    return names


def ranking(rows: Sequence[Row], participants: Mapping[str, str]) -> list[list[str]]:
    """Lines of benchmark, rank, pseudonym and speedup. A group needs one member who takes part; equal rank for ties."""
    speedups: dict[str, list[tuple[float, str]]] = {}
    for row in rows:
        pseudonym = _pseudonym(row, participants)
        result = row.result
        if pseudonym is None or result is None or row.status != "graded":
            continue
        for name, exercise in result.exercises.items():
            for item in exercise.items:
                if item.points > 0 and "speedup" in item.evidence:
                    board = speedups.setdefault(f"{name} {item.benchmark}", [])
                    board.append((float(item.evidence["speedup"]), pseudonym))
    return [
        [benchmark, str(1 + sum(other > speedup for other, _ in board)), pseudonym, f"{speedup:.2f}"]
        for benchmark, board in speedups.items()
        for speedup, pseudonym in sorted(board, key=lambda one: (-one[0], one[1]))
    ]


def _pseudonym(row: Row, participants: Mapping[str, str]) -> str | None:
    keys = [row.entry.submission]
    for person in row.entry.people:
        keys += [person.id, person.email, person.login]
    return next((participants[key.casefold()] for key in keys if key and key.casefold() in participants), None)
