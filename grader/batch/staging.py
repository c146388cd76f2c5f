"""Finds the exercise files in what was handed in and copies them, and nothing else. Trusted side.

A copy has each exercise's file and the Python files beside it, which it may import: what `pytest grader` would take.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..errors import ArchiveError, HandinError, SubmissionError
from ..submission import Submission
from .intake.handed import Handed
from .unpack import STUDENT, is_archive, unpack

MAX_FOLDERS = 2_000
_SKIPPED = {"__MACOSX", "__pycache__", "node_modules", "site-packages"}


def collect(handed: Handed, files: Mapping[str, str]) -> dict[str, bytes]:
    """The files to grade: name to contents; `files` maps exercise to file. Empty where nothing was found.

    Raises HandinError.
    """
    if handed.problem:
        raise HandinError(handed.problem)
    with tempfile.TemporaryDirectory(prefix="grader-intake-") as folder:
        scratch = Path(folder)
        try:
            roots = [*handed.folders, *_loose(handed, scratch)]
            found = _collect(roots, files)
            missing = {exercise: file for exercise, file in files.items() if file not in found}
            if missing and (archives := list(_archives(handed))):
                roots = []
                for number, archive in enumerate(archives):
                    (scratch / f"archive-{number}").mkdir()
                    roots.append(scratch / f"archive-{number}")
                    unpack(archive, roots[-1], STUDENT)
                for name, data in _collect(roots, missing).items():
                    if name in missing.values() or name not in files.values():  # what was handed in loose counts
                        _add(found, name, data)
        except (ArchiveError, SubmissionError) as error:
            raise HandinError(str(error).replace(f"{scratch}/", "")) from None
        except OSError as error:
            raise HandinError(f"can't be read: {error.strerror or error}") from None
    return found


def write(files: Mapping[str, bytes], folder: Path) -> None:
    """Make `folder` hold exactly these files, in one step."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".staging-", dir=folder.parent) as name:
        new = Path(name) / "new"
        new.mkdir()
        for file, data in files.items():
            (new / file).parent.mkdir(parents=True, exist_ok=True)
            (new / file).write_bytes(data)
        new.chmod(0o755)
        if folder.exists():
            folder.rename(Path(name) / "old")
        new.rename(folder)


def _loose(handed: Handed, scratch: Path) -> list[Path]:
    """Loose files, in a folder under the names they go by."""
    folder = scratch / "files"
    folder.mkdir()
    for name, path in handed.files:
        if not is_archive(path) and name == Path(name).name and path.is_file() and not path.is_symlink():
            shutil.copyfile(path, folder / name)
    return [folder]


def _archives(handed: Handed) -> Iterator[Path]:
    """Archives that were handed in as such: loose, or on top of a folder."""
    yield from (path for _, path in handed.files if is_archive(path) and not path.is_symlink())
    for folder in handed.folders:
        for path in sorted(folder.iterdir()):
            if is_archive(path) and path.is_file() and not path.is_symlink():
                yield path


def _collect(roots: list[Path], files: Mapping[str, str]) -> dict[str, bytes]:
    taken: dict[str, bytes] = {}
    folders = [(root, folder) for root in roots for folder in _folders(root)]
    for file in files.values():
        home = _home(file, folders)
        if home is None:
            continue
        parent = (home / file).parent
        if any((home / above).is_symlink() for above in Path(file).parents):
            raise HandinError(f"{Path(file).parent} is a link; hand in the folder itself")
        for path in sorted(parent.glob("*.py")):
            if not stat.S_ISREG(path.lstat().st_mode):
                raise HandinError(f"{path.name} is a link or no regular file; hand in the file itself")
        sources = Submission(home).sources(file)
        assert sources is not None
        for name, data in sources.files.items():
            _add(taken, (Path(file).parent / name).as_posix(), data)
    return taken


def _add(taken: dict[str, bytes], name: str, data: bytes) -> None:
    if taken.setdefault(name, data) != data:
        raise HandinError(f"there are two different {Path(name).name} beside the exercise files; keep one")


def _folders(root: Path) -> Iterator[Path]:
    """The root and the folders in it, without links and what is no work of the student."""
    for count, (name, inside, _) in enumerate(os.walk(root, onerror=_fail), 1):
        inside[:] = sorted(one for one in inside if one not in _SKIPPED and not one.startswith("."))
        inside[:] = [one for one in inside if not (Path(name) / one).is_symlink()]
        if count > MAX_FOLDERS:
            raise HandinError(f"has more than {MAX_FOLDERS} folders")
        yield Path(name)


def _fail(error: OSError) -> None:
    """A folder that can't be read is not an empty one."""
    raise error


def _home(file: str, folders: list[tuple[Path, Path]]) -> Path | None:
    """The folder to grade `file` from: the nearest `student/` that has it, else the nearest folder that does."""
    ranked = [
        ((folder.name != "student", len(folder.relative_to(root).parts)), root, folder)
        for root, folder in folders
        if os.path.lexists(folder / file)
    ]
    if not ranked:
        return None
    best = min(rank for rank, _, _ in ranked)
    nearest = [(root, folder) for rank, root, folder in ranked if rank == best]
    if len(nearest) > 1:
        first, second = (str((folder / file).relative_to(root)) for root, folder in nearest[:2])
        raise HandinError(f"there is {first} as well as {second}; keep one")
    return nearest[0][1]
