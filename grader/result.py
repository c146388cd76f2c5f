"""The record of one graded submission: `result.json`, schema `grader.result/1`, written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from .verdict import Status


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SubmissionFacts(_Model):
    """What was graded: the folder's name, and the SHA-256 of each exercise's file."""

    id: str
    files: dict[str, str]


class Environment(_Model):
    """Where it was graded, with what."""

    device: str
    driver: str | None = None
    torch: str = ""
    triton: str = ""
    python: str = ""
    sandbox: str
    mode: Literal["interpreter", "gpu"]
    seed: int
    rubric_sha256: str
    grader: str


class ItemResult(_Model):
    """One item: exercise, check and dtype, with its verdict and points. `staff` is not for students' eyes.

    `pitfall` is a section of docs/pitfalls.md; `pictures` and `script` are paths relative to the result's folder.
    """

    check: str
    dtype: str
    benchmark: str = ""
    status: Status
    points: float
    max_points: float
    gradable: bool
    message: str = ""
    hint: str = ""
    pitfall: str = ""
    reproduce: str = ""
    case: str = ""
    pictures: list[str] = Field(default_factory=list)
    script: str = ""
    evidence: dict[str, Any] = Field(default_factory=dict)
    staff: dict[str, Any] = Field(default_factory=dict)
    seconds: float = 0.0


class ExerciseResult(_Model):
    """The items of one exercise, in the rubric's order."""

    items: list[ItemResult]


class TotalsResult(_Model):
    """Points earned, gradable on this machine, and in all."""

    earned: float
    gradable: float
    maximum: float


class Result(_Model):
    """One graded submission."""

    version: Literal["grader.result/1"] = Field(default="grader.result/1", alias="schema")
    submission: SubmissionFacts
    environment: Environment
    exercises: dict[str, ExerciseResult]
    totals: TotalsResult
    warnings: list[str] = Field(default_factory=list)
    started: str
    finished: str

    def write(self, path: Path) -> None:
        """Replace `path` in one step, so that a reader never sees half a result. Raises OSError."""
        data = self.model_dump_json(by_alias=True, indent=1)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(data)
            Path(temporary).chmod(0o644)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
