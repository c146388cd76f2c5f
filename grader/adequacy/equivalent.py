"""Mutants that no check on a CPU can tell from the solution, marked in a file with the reason. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import GraderError
from .mutants import Mutant

EVERY = "every exercise"


class Mark(BaseModel):
    """Marks the mutants that agree with everything it names.

    `in` is a function, `within` part of a branch (`if TMA`, `else of TMA`), `line` and `becomes` parts of the changed
    lines with white space joined: `becomes` one of several, up to the line's end where it ends with $.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    reason: str = Field(min_length=1)
    mutator: str | None = None
    function: str | None = Field(default=None, alias="in")
    within: str | None = None
    line: str | None = None
    becomes: str | tuple[str, ...] | None = None

    def fits(self, mutant: Mutant) -> bool:
        """Whether the mutant is one of those that are meant."""
        return (
            self.mutator in (None, mutant.mutator)
            and self.function in (None, mutant.function)
            and (self.within is None or any(self.within in branch for branch in mutant.branches))
            and (self.line is None or self.line in mutant.before)
            and (self.becomes is None or self._is_among(mutant.after))
        )

    def _is_among(self, after: str) -> bool:
        parts = (self.becomes,) if isinstance(self.becomes, str) else self.becomes or ()
        return any(part in f"{after}$" for part in parts)

    def __str__(self) -> str:
        named = self.model_dump(by_alias=True, exclude_none=True, exclude={"reason"})
        return ", ".join(f"{key}: {value}" for key, value in named.items())


@dataclass(frozen=True)
class Sorted:
    """The mutants of one exercise: those to grade, those marked with their mark, and marks that fit none."""

    to_grade: list[Mutant]
    marked: list[tuple[Mutant, Mark]]
    stale: list[Mark]


class EquivalentsError(GraderError):
    """The file of marks can't be used."""


def read_marks(path: Path) -> dict[str, list[Mark]]:
    """The marks by exercise. Raises EquivalentsError; a file that is not there has none."""
    if not path.is_file():
        return {}
    try:
        listed = yaml.safe_load(path.read_text()) or {}
        return {exercise: [Mark.model_validate(mark) for mark in marks] for exercise, marks in listed.items()}
    except (yaml.YAMLError, AttributeError, TypeError) as error:
        raise EquivalentsError(f"{path}: is not a mapping of exercises to lists of marks: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise EquivalentsError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def sort_out(mutants: Iterable[Mutant], marks: Sequence[Mark]) -> Sorted:
    """Part the mutants by whether a mark fits them."""
    to_grade: list[Mutant] = []
    marked: list[tuple[Mutant, Mark]] = []
    used: set[int] = set()
    for mutant in mutants:
        fitting = [number for number, mark in enumerate(marks) if mark.fits(mutant)]
        used.update(fitting)
        if fitting:
            marked.append((mutant, marks[fitting[0]]))
        else:
            to_grade.append(mutant)
    return Sorted(to_grade, marked, [mark for number, mark in enumerate(marks) if number not in used])
