"""The command `grader verify`: which files of a handout a submission changed besides its exercise files. Trusted side.

Nothing of them is used: CI grades with a pristine copy of the handout. That someone changed them is for staff to know.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from .cli_input import errors_end_the_command
from .errors import ReleaseError
from .judging import default_root
from .rubric import load_rubric

MANIFEST = "MANIFEST.sha256"
# These name the manifest's hash, so they can't be in it.
CI_FILES = (".github/workflows/grade.yml", ".gitlab-ci.yml", "ci/autograder.py")
_CODE = ("grader", "reference")  # folders in which a new Python file is a change too
_LONGEST = 100  # files told; a submission may have any number


def verify(
    submission: Annotated[Path, typer.Argument(help="the repository that was handed in")],
    github: Annotated[bool, typer.Option(help="print annotations for GitHub Actions")] = False,
    strict: Annotated[bool, typer.Option(help="end with 1 where something was changed")] = False,
) -> None:
    """Say which files of the handout a submission changed that it had no reason to. They are not used anyway."""
    with errors_end_the_command():
        changes = list(changed(default_root(), submission))
    for name, what in changes[:_LONGEST]:
        text = f"{name}: {what}; the grader takes its own"
        typer.echo(f"::warning title=protected file::{_escaped(text)}" if github else text)
    if len(changes) > _LONGEST:
        typer.echo(f"and {len(changes) - _LONGEST} more")
    if not changes:
        typer.echo("no protected file was changed")
    raise typer.Exit(1 if strict and changes else 0)


def changed(pristine: Path, submission: Path) -> Iterator[tuple[str, str]]:
    """Name and kind of change, by name, of each protected file. Raises ReleaseError."""
    if not submission.is_dir():
        raise ReleaseError(f"{submission}: is not a folder; give the repository that was handed in")
    hashes = read_manifest(pristine)
    for name in CI_FILES:
        if (pristine / name).is_file():
            hashes[name] = _hash(pristine / name)
    loaded = load_rubric(pristine / "rubric.yaml").rubric
    own = {f"{folder}{loaded.file_of(exercise)}" for exercise in loaded.exercises for folder in ("", "student/")}
    whole = (submission / "grader").is_dir()  # otherwise only exercise files were handed in
    found: dict[str, str] = {}
    for name, expected in hashes.items():
        path = submission / name
        if os.path.lexists(path):
            if path.is_symlink() or not path.is_file() or _hash(path) != expected:
                found[name] = "was changed"
        elif whole:
            found[name] = "was removed"
    for folder in _CODE:
        for root, _, files in os.walk(submission / folder):
            for file in files:
                name = (Path(root) / file).relative_to(submission).as_posix()
                if "__pycache__" not in name and name not in hashes and name not in own:
                    found[name] = "was added"
    yield from sorted(found.items())


def read_manifest(pristine: Path) -> dict[str, str]:
    """SHA-256 by name of the protected files of a handout. Raises ReleaseError."""
    path = pristine / MANIFEST
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError as error:
        raise ReleaseError(f"{path}: can't be read: {error.strerror}; run this in a handout that "
                           "`grader release` made") from None  # fmt: skip
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
