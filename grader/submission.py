"""Trusted side: finds an exercise's file in a submission and stages it for a worker.

Only the exercise's own file and the Python files beside it are taken. What is taken is read into memory once, so that a
submission that changes or deletes its files while it runs changes nothing for the next item.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import SubmissionError

MAX_FILE_BYTES = 1 << 20
MAX_FILES = 100
# Names that Python or pytest run by themselves; nothing in a submission has a use for them.
_NEVER_TAKEN = {"conftest.py", "sitecustomize.py", "usercustomize.py", "setup.py"}


@dataclass(frozen=True)
class Sources:
    """The Python files of one exercise: names relative to the folder that holds them, with their bytes."""

    main: str
    files: Mapping[str, bytes]

    @property
    def sha256(self) -> str:
        """Of the exercise's own file."""
        return hashlib.sha256(self.files[self.main]).hexdigest()

    def stage(self, folder: Path) -> None:
        """Write the files below `folder`, which must exist."""
        for name, data in self.files.items():
            (folder / name).write_bytes(data)


class Submission:
    """A folder with `<id>.py` files, directly or in its `student/`."""

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            what = "is not a folder" if path.exists() else "does not exist"
            raise SubmissionError(f"{path}: {what}; --submission wants the folder with the exercise files")
        self.path = path

    def find(self, file: str) -> Path | None:
        """Where the named file is, or None where the submission has none."""
        return next((path for path in (self.path / file, self.path / "student" / file) if path.is_file()), None)

    def sources(self, file: str) -> Sources | None:
        """The named file and its neighbours, or None where the submission has none. Raises SubmissionError."""
        main = self.find(file)
        if main is None:
            return None
        neighbours = sorted(path for path in main.parent.glob("*.py") if path.is_file() and path != main)
        taken = [main, *(path for path in neighbours if path.name not in _NEVER_TAKEN)][:MAX_FILES]
        return Sources(main.name, {path.name: _read(path) for path in taken})


def _read(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise SubmissionError(f"{path}: {size} bytes; a source file may have {MAX_FILE_BYTES}")
        return path.read_bytes()
    except OSError as error:
        raise SubmissionError(f"{path}: can't be read: {error.strerror or error}") from None
