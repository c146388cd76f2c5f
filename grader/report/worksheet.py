"""Fills one column of a gradebook file that staff downloaded, and leaves all else as it was.

Canvas and Moodle read such a file back. Writing one from nothing would guess at ids and titles, and a wrong guess makes
a new column or grades the wrong person: so what is not found in the file is refused.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import ReportError
from .text import number

BOM = "\ufeff"


@dataclass(frozen=True)
class Grade:
    """Points of one submission, out of `maximum`, with its feedback. `keys` are ids or names of its owner."""

    keys: tuple[str, ...]
    points: float
    maximum: float
    feedback: str = ""

    def scaled(self, possible: str, *, scale: bool, path: Path) -> str:
        """The points as written, brought to a scale of `possible` where that is wanted. Raises ReportError."""
        try:
            most = float(possible)
        except ValueError:
            return number(self.points)
        if abs(most - self.maximum) < 0.005:
            return number(self.points)
        if not scale or most <= 0 or self.maximum <= 0:
            raise ReportError(f"{path}: it counts {possible} points, the results {number(self.maximum)}; "
                              "--scale brings them to its scale")  # fmt: skip
        return number(self.points * most / self.maximum)


@dataclass(frozen=True)
class Filled:
    """The file to upload, and what staff should know of it."""

    text: str
    unmatched: tuple[str, ...]  # submissions whose owner is not in the file
    missing: tuple[str, ...]  # people in the file without a submission
    kept: tuple[str, ...]  # people whose cell was left alone, and why


@dataclass
class Sheet:
    """A delimited file as rows, that writes itself as it was: same delimiter, same byte order mark, same line ends."""

    path: Path
    header: list[str]
    rows: list[list[str]]
    delimiter: str
    bom: bool
    line_end: str

    @classmethod
    def read(cls, path: Path) -> Sheet:
        """Read a file in UTF-8. Raises ReportError."""
        try:
            text = path.read_bytes().decode("utf-8")
        except OSError as error:
            raise ReportError(f"{path}: can't be read: {error.strerror or error}") from None
        except UnicodeDecodeError:
            raise ReportError(f"{path}: is not UTF-8 text; give the CSV file as it was downloaded") from None
        bom, text = text.startswith(BOM), text.removeprefix(BOM)
        first = text.split("\n", 1)[0]
        delimiter = max(",;\t", key=first.count)
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
        if not rows or len(rows[0]) < 2:
            raise ReportError(f"{path}: is no CSV file with a header; give it as it was downloaded")
        for index, row in enumerate(rows[1:], 2):
            if row and len(row) != len(rows[0]):
                raise ReportError(f"{path}: row {index} has {len(row)} cells, the header {len(rows[0])}; "
                                  "give the file as it was downloaded")  # fmt: skip
        line_end = "\r\n" if "\r\n" in text else "\n"
        return cls(path, rows[0], [row for row in rows[1:] if row], delimiter, bom, line_end)

    def write(self, columns: Sequence[int]) -> str:
        """The text of these columns."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, delimiter=self.delimiter, lineterminator=self.line_end)
        writer.writerows([row[index] for index in columns] for row in [self.header, *self.rows])
        return (BOM if self.bom else "") + buffer.getvalue()

    def match(self, grades: Sequence[Grade], names: Mapping[int, Sequence[str]]) -> dict[int, Grade]:
        """The grade of each row; `names` has what a row's person may be called. Raises ReportError where two fit."""
        rows_of: dict[str, set[int]] = {}
        for row, known in names.items():
            for name in known:
                if name.strip():
                    rows_of.setdefault(name.strip().casefold(), set()).add(row)
        found: dict[int, Grade] = {}
        for grade in grades:
            rows = next((rows_of[key.casefold()] for key in grade.keys if key.casefold() in rows_of), set())
            if len(rows) > 1:
                raise ReportError(f"{self.path}: {grade.keys[0]} fits {len(rows)} people; rename the submission's "
                                  "folder to an id of one, or give a --roster")  # fmt: skip
            for row in rows:
                if row in found:
                    raise ReportError(f"{self.path}: {found[row].keys[0]} and {grade.keys[0]} are the same person; "
                                      "leave out one of the results")  # fmt: skip
                found[row] = grade
        return found
