"""Writes a file whole or not at all, and says beforehand where that can't be."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .errors import SelectionError


def check_folder_of(path: Path | None, option: str = "") -> None:
    """Raise SelectionError where a file, as the option gives it, can't be written for want of its folder."""
    if path is not None and not path.absolute().parent.is_dir():
        raise SelectionError(f"{option} {path}: there is no folder {path.absolute().parent}; make it first".lstrip())


def is_special(path: Path) -> bool:
    """Whether something is there that is no file, as /dev/null: it is written itself, and nothing goes beside it."""
    return path.exists() and not path.is_file()


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write, which takes the place of `path` in one step at the end, or goes. Raises OSError.

    What is no file, as /dev/null, is written itself; of a link, what it points to is replaced.
    """
    path = path.resolve()
    if is_special(path):
        yield path
        return
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
