"""What a run knows of each submission besides its grades, kept beside the ledger so that the book can be written anew.

Trusted side.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, field_serializer

from ..errors import GraderError
from ..rubric import Rubric
from ..whole import replacing
from .intake.handed import Person


def _clean(value: object) -> object:
    """Text of students and platforms, without what no UTF-8 file holds and what would steer a terminal."""
    return "".join(c if c.isprintable() else "\ufffd" for c in value) if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_clean)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Who(_Model):
    """A person, as the platform or the roster names them."""

    name: Text = ""
    id: Text = ""
    email: Text = ""
    login: Text = ""

    def __str__(self) -> str:
        return str(Person(**vars(self)))


class Entry(_Model):
    """One submission, or somebody of the roster without one (`submission` is "").

    `keys` has the key in force per exercise; `problem` is why it can't be graded, `notes` what staff should know.
    """

    submission: str
    people: tuple[Who, ...]
    attempt: int = 0
    submitted: Text = ""
    late: bool | None = None
    problem: Text = ""
    notes: tuple[Text, ...] = ()
    keys: dict[str, str] = Field(default_factory=dict)

    def changed(self, **facts: Any) -> Entry:
        """The entry with other facts, cleaned as all are."""
        return Entry(**{**vars(self), **facts})


class Class(_Model):
    """Everything that the book needs besides the ledger. `refused`: what of the export belongs to no submission."""

    version: str = Field(default="grader.class/1", alias="schema")
    title: str
    rubric: Rubric
    platform: str
    exercises: tuple[str, ...]
    entries: tuple[Entry, ...]
    refused: tuple[Text, ...] = ()

    @field_serializer("rubric")
    def _as_written(self, rubric: Rubric) -> dict[str, Any]:
        # Which keys an exercise has at all depends on its kind: what was not given stays out.
        return rubric.model_dump(mode="json", by_alias=True, exclude_unset=True)

    def write(self, out: Path) -> None:
        """Keep it in the output folder."""
        replace_text(out / "class.json", self.model_dump_json(by_alias=True, indent=1))


def load_class(out: Path) -> Class | None:
    """What the last run left in the output folder, None before the first. Raises GraderError."""
    path = out / "class.json"
    try:
        return TypeAdapter(Class).validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        problem = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error.strerror
        raise GraderError(f"{path}: can't be read: {problem}; remove it, and run grader batch again") from None


def replace_text(path: Path, text: str) -> None:
    """Write a file whole or not at all, and only where it changes."""
    data = text.encode("utf-8", "replace")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.read_bytes() == data:
        return
    with replacing(path) as temporary:
        temporary.write_bytes(data)
