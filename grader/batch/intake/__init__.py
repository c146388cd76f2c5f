"""Takes in what a platform exports: finds out which it was, and chooses each student's attempt. Trusted side."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from ...errors import ArchiveError, GraderError
from ..unpack import CLASS, archive_stem, is_archive, unpack
from . import canvas, classroom, classroom50, gradescope, moodle, plain
from .handed import Handed, entries, slug

KINDS: Mapping[str, ModuleType] = {
    "gradescope": gradescope,
    "moodle": moodle,
    "canvas": canvas,
    "classroom": classroom,
    "classroom50": classroom50,
    "plain": plain,
}


@dataclass(frozen=True)
class TakenIn:
    """The attempts to grade by submission id, how many others there were of the same students, and what was not
    unpacked and can't be told whose it is.
    """

    kind: str
    submissions: Mapping[str, Handed]
    passed_over: int
    refused: tuple[str, ...] = ()


def take_in(
    path: Path, scratch: Path, *, kind: str | None = None, attempt: int | None = None, due: str | None = None
) -> TakenIn:
    """Read a folder or an archive. `scratch` is an empty folder for what is unpacked. Raises GraderError."""
    if kind is not None and kind not in KINDS:
        raise GraderError(f"--kind {kind}: there is no such kind; known: {', '.join(KINDS)}")
    deadline = _time(due)
    if due is not None and deadline is None:
        raise GraderError(f"--due {due}: is not a date and time; write 2026-04-15T23:59:00-07:00")
    top, refused = _open(path, scratch)
    found_kind, root = _recognise(top, path, kind)
    handed = [_marked(one, deadline) for one in KINDS[found_kind].read(root)]
    handed = [_with_refusals(one, refused, top, KINDS[found_kind]) for one in handed]
    if not handed:
        raise GraderError(f"{path}: there is no submission in it; is it the folder that the platform exported?")
    chosen, passed_over = _choose(handed, attempt)
    submissions: dict[str, Handed] = {}
    for one in chosen:
        name = slug(one.name)
        while name.casefold() in {known.casefold() for known in submissions}:
            name += "+"
        submissions[name] = one
    return TakenIn(found_kind, submissions, passed_over, tuple(refused.values()))


def _open(path: Path, scratch: Path) -> tuple[Path, dict[str, str]]:
    refused: dict[str, str] = {}
    if path.is_dir():
        return path.resolve(), refused
    if not path.exists():
        raise GraderError(f"{path}: does not exist; give the folder or archive that the platform exported")
    if not is_archive(path):
        raise GraderError(f"{path}: is neither a folder nor a zip or tar archive")
    root = scratch / archive_stem(path.name)
    root.mkdir(parents=True)
    try:
        unpack(path, root, CLASS, refused)
    except ArchiveError as error:
        raise GraderError(f"{path}: {error}") from None
    return root, refused


def _recognise(root: Path, path: Path, kind: str | None) -> tuple[str, Path]:
    """The kind and the folder that has the submissions: the given one, or one of the few in it."""
    inside = [one for one in entries(root) if one.is_dir() and not one.is_symlink()]
    # Beside other submissions a folder is one as well, whatever its student has put into it.
    wrapped = len(inside) == 1 and not any(is_archive(one) for one in entries(root))
    candidates = [root, *inside] if wrapped else [root]
    for name in [kind] if kind else KINDS:
        if name != "plain":
            for candidate in candidates:
                if KINDS[name].recognises(candidate):
                    return name, candidate
    if kind is not None and kind != "plain":
        return kind, root  # forced: the reader says what is missing
    if len(inside) == 1 and len(entries(root)) == 1 and _is_class(inside[0]):
        root = inside[0]
    if plain.recognises(root):
        return "plain", root
    known = ", ".join(KINDS)
    raise GraderError(f"{path}: no export of {known} is recognised in it; see docs/staff.md, or force --kind")


def _is_class(folder: Path) -> bool:
    """Whether a folder holds submissions, and is none itself."""
    inside = entries(folder)
    return any(path.is_dir() or is_archive(path) for path in inside) and not any(
        path.suffix == ".py" or path.name == "student" for path in inside
    )


def _with_refusals(one: Handed, refused: dict[str, str], top: Path, kind: ModuleType) -> Handed:
    """The attempt with the reason why a file of it was not unpacked; what it takes from `refused` is its own.

    `top` is the folder that the names in `refused` start from.
    """
    places = [folder.relative_to(top).parts for folder in one.folders if folder.is_relative_to(top)]
    ids = {person.id for person in one.people}
    for name in list(refused):
        parts = tuple(part for part in name.replace("\\", "/").split("/") if part not in ("", "."))
        # Canvas has the files of all students in one folder, each with its owner's id.
        loose = kind is canvas and canvas.owner(parts[-1] if parts else "") in ids
        if loose or any(parts[: len(place)] == place for place in places if len(place) < len(parts)):
            reason = refused.pop(name)
            one = replace(one, problem=one.problem or reason)
    return one


def _choose(handed: Sequence[Handed], attempt: int | None) -> tuple[list[Handed], int]:
    """Of several attempts of the same people the last, or the one of the given number, counted from 1."""
    by_people: dict[object, list[Handed]] = defaultdict(list)
    for one in handed:
        by_people[one.who].append(one)
    chosen = []
    for attempts in by_people.values():
        attempts.sort(key=_order)
        if len({_order(one) for one in attempts}) < len(attempts):
            names = " and ".join(one.name for one in attempts)
            chosen.append(replace(attempts[-1], problem=f"nothing tells which of {names} is later; keep one"))
        elif attempt is None:
            chosen.append(attempts[-1])
        elif attempt <= len(attempts):
            chosen.append(attempts[attempt - 1])
        else:
            chosen.append(replace(attempts[-1], problem=f"there is no attempt {attempt}, only {len(attempts)}"))
    return chosen, len(handed) - len(chosen)


_UTC = datetime.UTC


def _order(one: Handed) -> tuple[int, datetime.datetime]:
    return one.attempt, _time(one.submitted) or datetime.datetime.min.replace(tzinfo=_UTC)


def _time(text: str | None) -> datetime.datetime | None:
    """A time as platforms write it; without a zone it counts as UTC."""
    text = (text or "").strip().removesuffix(" UTC")
    try:
        parsed = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=_UTC)


def _marked(one: Handed, deadline: datetime.datetime | None) -> Handed:
    """With the late mark of `--due`, where the platform tells the time."""
    submitted = _time(one.submitted)
    return replace(one, late=submitted > deadline) if deadline and submitted else one
