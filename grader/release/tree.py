"""The files of a handout, in memory, and how they are written so that the same input gives the same bytes."""

from __future__ import annotations

import hashlib
import os
import py_compile
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from jinja2 import Environment, StrictUndefined

import reference

from ..errors import ReleaseError
from ..protected import CI_FILES, MANIFEST
from ..rubric import Rubric
from .starters import Cut

TIME = 946_684_800  # of every file: 2000-01-01
_TEMPLATES = Path(__file__).parent / "templates"
_STAFF_PACKAGES = ("adequacy", "batch", "release")
_DOCS = ("students.md", "pitfalls.md", "inspect.md", "interpreter.md", "benchmarking.md")
_FROM_TEMPLATES = {
    "README.md": "README.md", "gitignore": ".gitignore", "handout_tests.py.j2": "tests/test_handout.py",
    "install": "ci/install", "grade": "ci/grade",
}  # fmt: skip
_CI = dict(zip(("grade.yml", "gitlab-ci.yml", "autograder.py.j2"), CI_FILES, strict=True))

Files = dict[str, bytes]


def handout(root: Path, rubric: Rubric, public: bytes, starters: Mapping[str, Cut]) -> Files:
    """Everything but bytecode and CI. `public` is the students' rubric. Raises ReleaseError."""
    files = {name: each.text.encode() for name, each in starters.items()}
    files["rubric.yaml"] = public
    for name in ("pyproject.toml", "constraints.txt", *(f"docs/{name}" for name in _DOCS)):
        files[name] = _read(root / name)
    for path in sorted((root / "grader").rglob("*")):
        inside = path.relative_to(root / "grader").parts
        if path.is_file() and inside[0] not in _STAFF_PACKAGES and (path.suffix == ".py" or "templates" in inside):
            files[path.relative_to(root).as_posix()] = _read(path)
    others = {exercise for exercise in reference.exercise_ids() if exercise not in rubric.exercises}
    for path in sorted((root / "reference").rglob("*.py")):
        inside = path.relative_to(root / "reference").parts
        if inside[0] != "solutions" and not (len(inside) == 1 and path.stem in others):
            files[path.relative_to(root).as_posix()] = _read(path)
    for template, name in _FROM_TEMPLATES.items():
        files[name] = fill(template, title=rubric.title, exercises=_told(rubric))
    return files


def with_ci(files: Files, rubric: Rubric) -> Files:
    """The files with the manifest of what is protected and, where the rubric says whence to fetch it, the CI files."""
    names = sorted(name for name in files if not name.startswith("student/"))
    manifest = "".join(f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in names).encode()
    files = {**files, MANIFEST: manifest}
    if rubric.release.url and rubric.release.tag:
        pinned = {"url": rubric.release.url, "tag": rubric.release.tag, "sha256": hashlib.sha256(manifest).hexdigest()}
        files |= {name: fill(template, **pinned) for template, name in _CI.items()}
    return files


def compiled(files: Files, exercises: Mapping[str, object]) -> Files:
    """The files with the oracles of these exercises, and packages beside them, as bytecode of this Python."""
    out: Files = {}
    for name, data in files.items():
        parts = name.split("/")
        if parts[0] == "reference" and (len(parts) > 2 or Path(name).stem in exercises):
            out[f"{name}c"] = _bytecode(name, data)
        else:
            out[name] = data
    return out


def _bytecode(name: str, data: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "source.py"), Path(folder, "code.pyc")
        source.write_bytes(data)
        unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(str(source), str(target), name, doraise=True, optimize=2, invalidation_mode=unchecked)
        return target.read_bytes()


def write(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the files below a new folder, with the modes and times that they have in every handout."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(_mode(data))
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (TIME, TIME))
    for path in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        path.chmod(0o755)


def archive(files: Mapping[str, bytes], path: Path) -> None:
    """Write a zip of the files."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in sorted(files.items()):
            entry = zipfile.ZipInfo(name, (2000, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | _mode(data)) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            out.writestr(entry, data)


def move(folder: Path, out: Path) -> None:
    """Put a finished folder in its place, which must be free or empty; both are on one file system."""
    if out.is_dir():
        out.rmdir()
    shutil.move(folder, out)


def fill(template: str, **values: object) -> bytes:
    """A template with values put in. `<<` and `>>` mark them: braces are what workflow files are full of."""
    environment = Environment(  # noqa: S701 - no HTML
        variable_start_string="<<", variable_end_string=">>", block_start_string="<%", block_end_string="%>",
        comment_start_string="<#", comment_end_string="#>",
        undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return environment.from_string((_TEMPLATES / template).read_text("utf-8")).render(values).encode()


def _told(rubric: Rubric) -> Iterator[dict[str, str]]:
    for exercise, block in rubric.exercises.items():
        yield {"id": exercise, "points": f"{block.points:g}", "file": f"student/{rubric.file_of(exercise)}",
               "checks": ", ".join(rubric.weights_of(exercise))}  # fmt: skip


def _mode(data: bytes) -> int:
    return 0o755 if re.match(rb"#!", data) else 0o644


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ReleaseError(f"{path}: can't be read: {error.strerror}; a handout needs it") from None
