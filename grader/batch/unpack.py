"""Unpacks archives that students made. Trusted side: nothing in them is believed, sizes are counted while reading.

Only regular files and folders come out, below the given folder. What an archive says about owners, permissions and
times is ignored.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import stat
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, cast

from ..errors import ArchiveError

_CHUNK = 1 << 16
_RATIO_FROM_BYTES = 1 << 20  # text of a few kilobytes may shrink by any factor
_TAR_OVERHEAD = 1 << 20
_CENTRAL_ENTRY = b"PK\x01\x02"
SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")


@dataclass(frozen=True)
class Limits:
    """What an archive may unpack to. `ratio` is bytes out over bytes in, and counts from a megabyte on."""

    archive_bytes: int
    total_bytes: int
    member_bytes: int
    members: int
    depth: int
    ratio: float


STUDENT = Limits(64 << 20, 64 << 20, 16 << 20, members=2_000, depth=12, ratio=100)
# A platform's export of a whole class.
CLASS = Limits(16 << 30, 16 << 30, 256 << 20, members=500_000, depth=24, ratio=1_000)


@dataclass(frozen=True)
class _Member:
    name: str
    kind: str  # "file", "folder", or what else it is
    size: int
    open: Callable[[], IO[bytes]]


def is_archive(path: Path) -> bool:
    """Whether the name is that of an archive that `unpack` reads."""
    return path.name.lower().endswith(SUFFIXES)


def archive_stem(name: str) -> str:
    """The name without its archive suffix."""
    suffix = max((s for s in SUFFIXES if name.lower().endswith(s)), key=len, default="")
    return name[: len(name) - len(suffix)]


def unpack(archive: Path, into: Path, limits: Limits = STUDENT, refused: dict[str, str] | None = None) -> None:
    """Write the files of `archive` below `into`, an empty folder. Raises ArchiveError at the first bad member.

    With `refused`, bad members are left out and noted there by name with their reason, so that one student's file does
    not cost a whole class's export; an archive that is too large or broken is refused all the same.
    """
    try:
        size = archive.stat().st_size
        if size > limits.archive_bytes:
            raise ArchiveError(f"the archive has {_mib(size)}; {_mib(limits.archive_bytes)} are allowed")
        allowed = min(limits.total_bytes, max(_RATIO_FROM_BYTES, int(size * limits.ratio)))
        reason = f"unpacks to more than {_mib(limits.total_bytes)}" if allowed == limits.total_bytes else (
            f"unpacks to more than {limits.ratio:g} times its size")  # fmt: skip
        if archive.name.lower().endswith(".zip"):
            with archive.open("rb") as file:
                _refuse_too_many(_entries(file), limits)
                with zipfile.ZipFile(file) as opened:
                    _write_all(_zip_members(opened), into, limits, _Budget(allowed, reason), refused)
        else:
            with archive.open("rb") as file:
                # Counted below tarfile, which reads headers of any declared length into memory.
                stream = _Counted(_decompressed(file), allowed + _TAR_OVERHEAD + 1024 * limits.members, reason)
                with tarfile.open(fileobj=cast(BinaryIO, stream), mode="r|") as tar:
                    _write_all(_tar_members(tar), into, limits, _Budget(allowed, reason), refused)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, NotImplementedError) as error:
        raise ArchiveError(f"is not a whole {_kind(archive)} archive: {error}") from None
    except (OSError, RuntimeError, ValueError, ArithmeticError, LookupError, MemoryError) as error:
        # The libraries raise what they happen to, on headers made to break them.
        raise ArchiveError(f"can't be unpacked: {error or type(error).__name__}") from None


@dataclass
class _Budget:
    left: int
    reason: str

    def spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise ArchiveError(self.reason)


class _Counted:
    """A stream that refuses to be read beyond `limit` bytes."""

    def __init__(self, source: IO[bytes], limit: int, reason: str) -> None:
        self._source = source
        self._left = limit
        self._reason = reason

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > self._left:
            raise ArchiveError(self._reason)
        data = self._source.read(size)
        self._left -= len(data)
        return data


def _write_all(
    members: Iterator[_Member], into: Path, limits: Limits, budget: _Budget, refused: dict[str, str] | None
) -> None:
    seen: dict[str, tuple[str, bool]] = {}  # by the name as a case-blind file system sees it: name, whether a folder
    for count, member in enumerate(members, 1):
        _refuse_too_many(count, limits)
        try:
            parts = _checked(member, limits)
            if parts:
                _refuse_clash(parts, member.kind == "folder", seen)
        except ArchiveError as error:
            if refused is None:
                raise
            refused[member.name] = str(error)
            continue
        target = into.joinpath(*parts)
        if member.kind == "folder":
            target.mkdir(parents=True, exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        with member.open() as source, target.open("xb") as sink:
            written = 0
            while data := source.read(_CHUNK):
                budget.spend(len(data))
                written += len(data)
                if written > limits.member_bytes:
                    raise ArchiveError(f"{_shown(member.name)} has more than {_mib(limits.member_bytes)}")
                sink.write(data)


def _checked(member: _Member, limits: Limits) -> tuple[str, ...]:
    """The parts of a member's path, all harmless. Raises ArchiveError."""
    shown = _shown(member.name)
    if member.kind not in ("file", "folder"):
        raise ArchiveError(f"{shown} is {member.kind}; only files and folders are unpacked")
    if any("\ud800" <= c <= "\udfff" for c in member.name):
        raise ArchiveError(f"the name {shown} is not UTF-8")
    name = member.name.replace("\\", "/")
    if any(unicodedata.category(c) == "Cc" for c in name):
        raise ArchiveError(f"the name {shown} has control characters")
    if name.startswith("/") or re.match(r"[A-Za-z]:", name):
        raise ArchiveError(f"{shown} is an absolute path")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts:
        raise ArchiveError(f"{shown} leads out of the archive")
    if len(parts) > limits.depth:
        raise ArchiveError(f"{shown} lies {len(parts)} folders deep; {limits.depth} are allowed")
    if any(len(part.encode()) > 255 for part in parts):
        raise ArchiveError(f"the name {shown} is longer than 255 bytes")
    if not parts and member.kind == "file":
        raise ArchiveError("a member has no name")
    if member.size > limits.member_bytes:
        raise ArchiveError(f"{shown} has {_mib(member.size)}; {_mib(limits.member_bytes)} are allowed")
    return parts


def _refuse_clash(parts: tuple[str, ...], is_folder: bool, seen: dict[str, tuple[str, bool]]) -> None:
    for depth in range(1, len(parts) + 1):
        name = "/".join(parts[:depth])
        folder = is_folder or depth < len(parts)
        key = unicodedata.normalize("NFC", name).casefold()
        known = seen.setdefault(key, (name, folder))
        if known[0] != name:
            raise ArchiveError(f"{_shown(name)} and {_shown(known[0])} differ in case only")
        if known[1] != folder:
            raise ArchiveError(f"{_shown(name)} is both a file and a folder")
    if not is_folder:
        key += "\0"
        if key in seen:
            raise ArchiveError(f"{_shown(name)} comes twice")
        seen[key] = (name, False)


def _zip_members(opened: zipfile.ZipFile) -> Iterator[_Member]:
    for info in opened.infolist():
        name = info.orig_filename
        if not info.flag_bits & 0x800:  # written without a declared encoding: zipfile took the bytes for code page 437
            name = name.encode("cp437").decode("utf-8", "surrogateescape")
        mode = info.external_attr >> 16
        kind = "folder" if name.endswith("/") else _kind_of_mode(mode) if stat.S_IFMT(mode) else "file"
        if info.flag_bits & 0x1:
            kind = "encrypted"
        yield _Member(name, kind, info.file_size, lambda info=info: opened.open(info))  # type: ignore[misc]


def _kind_of_mode(mode: int) -> str:
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "a link", stat.S_IFIFO: "a pipe"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def _tar_members(tar: tarfile.TarFile) -> Iterator[_Member]:
    for info in tar:
        kind = (
            "a sparse file" if info.issparse() else "file" if info.isreg() else "folder" if info.isdir()
            else "a link" if info.issym() or info.islnk() else "a pipe" if info.isfifo() else "a device"
        )  # fmt: skip
        yield _Member(info.name, kind, info.size, lambda info=info: cast(IO[bytes], tar.extractfile(info)))  # type: ignore[misc]


def _decompressed(file: IO[bytes]) -> IO[bytes]:
    start = file.read(6)
    file.seek(0)
    if start.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.GzipFile(fileobj=file))
    if start.startswith(b"BZh"):
        return cast(IO[bytes], bz2.BZ2File(file))
    return cast(IO[bytes], lzma.LZMAFile(file)) if start.startswith(b"\xfd7zXZ") else file


def _entries(file: IO[bytes]) -> int:
    """How many entries the zip file's directory may have, before zipfile makes an object of each."""
    count, tail = 0, b""
    while data := file.read(1 << 20):
        count += (tail + data).count(_CENTRAL_ENTRY)
        tail = data[-3:]
    file.seek(0)
    return count


def _refuse_too_many(count: int, limits: Limits) -> None:
    if count > limits.members:
        raise ArchiveError(f"has more than {limits.members} members")


def _kind(archive: Path) -> str:
    return "zip" if archive.name.lower().endswith(".zip") else "tar"


def _shown(name: str) -> str:
    return repr(name if len(name) <= 80 else f"{name[:77]}...")


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"
