"""What can be said of an item. Pure values, no process and no GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Status(StrEnum):
    """The outcome of one item. Every other word for an outcome in this project is one of these."""

    PASSED = "passed"
    NOT_IMPLEMENTED = "not_implemented"
    IMPORT_FAILED = "import_failed"
    COMPILE_FAILED = "compile_failed"
    RAISED = "raised"
    WRONG_SHAPE = "wrong_shape"
    WRONG_DTYPE = "wrong_dtype"
    WRONG_VALUES = "wrong_values"
    NOT_FINITE = "not_finite"
    MODIFIED_INPUT = "modified_input"
    OUT_OF_BOUNDS = "out_of_bounds"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    FALLBACK = "fallback"
    FORBIDDEN = "forbidden"
    TOO_SLOW = "too_slow"
    NOT_MEASURED = "not_measured"
    INFRASTRUCTURE_ERROR = "infrastructure_error"


@dataclass(frozen=True)
class Verdict:
    """One judgement: the status, what was seen and expected in one line, a hint on what to do, and the facts behind it.

    `case` is the text of the case that showed it (`str(Case)`), or "" where no case is to blame. `staff` holds what is
    suspicious and no more: it decides nothing and is never shown to a student. `pitfall` names what the hint explains,
    a section of docs/pitfalls.md. `attachments` are texts to save beside the result, by suffix.
    """

    status: Status
    message: str = ""
    hint: str = ""
    case: str = ""
    evidence: dict[str, Any] = field(default_factory=dict)
    staff: dict[str, Any] = field(default_factory=dict)
    pitfall: str = ""
    attachments: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def passed(self) -> bool:
        """Whether nothing was wrong."""
        return self.status is Status.PASSED

    @property
    def gradable(self) -> bool:
        """Whether this says anything about the submission."""
        return self.status not in (Status.NOT_MEASURED, Status.INFRASTRUCTURE_ERROR)
