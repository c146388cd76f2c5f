"""The record of one graded submission: `result.json`, schema `grader.result/1`, written whole or not at all.

`make schema` publishes the JSON Schema of it, `docs/schema/grader.result-1.json`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .errors import ResultError
from .verdict import Status
from .whole import replacing

SCHEMA: Literal["grader.result/1"] = "grader.result/1"


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

    version: Literal["grader.result/1"] = Field(default=SCHEMA, alias="schema")
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
        with replacing(path) as temporary:
            temporary.write_text(data, encoding="utf-8")


# A later version adds its reader here and keeps those of the earlier ones.
_READERS: Mapping[str, Callable[[Any], Result]] = {SCHEMA: Result.model_validate}


def load_result(path: Path) -> Result:
    """Read a result of any version there has been. Raises ResultError."""
    try:
        data = json.loads(path.read_bytes(), parse_constant=_not_json)
    except OSError as error:
        raise ResultError(path, f"can't be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise ResultError(path, f"is not JSON: {error}; grade the submission again") from None
    version = data.get("schema") if isinstance(data, dict) else None
    if not isinstance(version, str) or version not in _READERS:
        found = f"has the schema {version!r}" if version else "names no schema"
        raise ResultError(path, f"{found}; this grader reads {', '.join(_READERS)}. Give a result.json that "
                          "`pytest grader` wrote, or install the grader that wrote this one")  # fmt: skip
    try:
        return _READERS[version](data)
    except ValidationError as error:
        first = error.errors()[0]
        raise ResultError(path, f"is no {version}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _not_json(constant: str) -> None:
    raise ValueError(f"it holds {constant}")


def json_schema() -> str:
    """The JSON Schema of `result.json`, as published."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Result.model_json_schema(by_alias=True)}
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(json_schema())
