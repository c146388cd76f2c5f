"""Unpacking of archives that students made: what is refused, with which reason, and that nothing leaks out."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import stat
import tarfile
import zipfile
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.batch.unpack import STUDENT, Limits, unpack
from grader.errors import ArchiveError

SMALL = Limits(1 << 20, 4 << 20, 2 << 20, members=50, depth=6, ratio=100)


def zipped(*members: tuple[str | zipfile.ZipInfo, bytes], compress: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compress) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return buffer.getvalue()


def special(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system = 3
    info.external_attr = mode << 16
    return info


def tarred(*members: tuple[str, bytes, bytes, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT, encoding="utf-8",
                      errors="surrogateescape") as archive:  # fmt: skip
        for name, kind, data, link in members:
            info = tarfile.TarInfo(name)
            info.type, info.size, info.linkname = kind, len(data), link
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def encrypted() -> bytes:
    data = bytearray(zipped(("a.py", b"x = 1\n")))
    data[6] |= 1  # the flag of the local header, then that of the directory
    data[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


def lying_size() -> bytes:
    """A member that says it has 10 bytes and has 8 MiB."""
    data = bytearray(zipped(("a.py", b"\0" * (8 << 20))))
    for at in (22, data.index(b"PK\x01\x02") + 24):
        data[at : at + 4] = (10).to_bytes(4, "little")
    return bytes(data)


def zipped_raw(name: bytes) -> bytes:
    placeholder = "n" * len(name)
    return zipped((placeholder, b"x")).replace(placeholder.encode(), name)


FILE, LINK, HARD, PIPE, DEVICE = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE

# The name says what is hostile; the archive; what the reason must say.
HOSTILE: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "zip_slip": ("a.zip", lambda: zipped(("../../evil.py", b"x")), "'../../evil.py' leads out of the archive"),
    "zip_slip_windows": ("a.zip", lambda: zipped(("..\\evil.py", b"x")), "leads out of the archive"),
    "tar_slip": ("a.tar", lambda: tarred(("a/../../evil.py", FILE, b"x", "")), "leads out of the archive"),
    "absolute": ("a.tar", lambda: tarred(("/tmp/evil.py", FILE, b"x", "")), "'/tmp/evil.py' is an absolute path"),
    "drive": ("a.zip", lambda: zipped(("C:/evil.py", b"x")), "is an absolute path"),
    "symlink_zip": ("a.zip", lambda: zipped((special("a.py", stat.S_IFLNK | 0o777), b"/etc/passwd")),
                    "'a.py' is a link"),
    "symlink_tar": ("a.tar", lambda: tarred(("a.py", LINK, b"", "/etc/passwd")), "'a.py' is a link"),
    "hard_link": ("a.tar", lambda: tarred(("a.py", HARD, b"", "../other/gelu.py")), "'a.py' is a link"),
    "pipe": ("a.tar", lambda: tarred(("a.py", PIPE, b"", "")), "'a.py' is a pipe"),
    "device": ("a.tar", lambda: tarred(("a.py", DEVICE, b"", "")), "'a.py' is a device"),
    "device_zip": ("a.zip", lambda: zipped((special("a.py", stat.S_IFCHR | 0o666), b"")), "'a.py' is a device"),
    "bomb_zip": ("a.zip", lambda: zipped(*((f"{i}.py", b"\0" * (1 << 20)) for i in range(8))), "unpacks to more than"),
    "bomb_member": ("a.zip", lambda: zipped(("a.py", b"\0" * (8 << 20))), "'a.py' has 8.0 MiB; 2.0 MiB are allowed"),
    "bomb_lying": ("a.zip", lying_size, "Bad CRC-32"),
    "bomb_gzip": ("a.tar.gz", lambda: gzip.compress(tarred(*((f"{i}", FILE, b"\0" * (1 << 20), "") for i in range(9)))),
                  "unpacks to more than"),
    "bomb_tar": ("a.tar.bz2", lambda: bz2.compress(tarred(*((f"{i}", FILE, b"\0" * (1 << 20), "") for i in range(9)))),
                 "unpacks to more than"),
    "huge_header": ("a.tgz", lambda: gzip.compress(huge_header()), "unpacks to more than"),
    "many_members": ("a.zip", lambda: zipped(*((f"{i}.py", b"") for i in range(100))), "has more than 50 members"),
    "many_members_tar": ("a.tar", lambda: tarred(*((f"{i}", FILE, b"", "") for i in range(100))),
                         "more than 50 members"),
    "deep": ("a.zip", lambda: zipped(("a/" * 7 + "a.py", b"")), "lies 8 folders deep; 6 are allowed"),
    "case_clash": ("a.zip", lambda: zipped(("gelu.py", b"1"), ("GELU.py", b"2")),
                   "'GELU.py' and 'gelu.py' differ in case"),
    "twice": ("a.tar", lambda: tarred(("a.py", FILE, b"1", ""), ("a.py", FILE, b"2", "")), "'a.py' comes twice"),
    "file_and_folder": ("a.zip", lambda: zipped(("a", b""), ("a/b.py", b"")), "'a' is both a file and a folder"),
    "non_utf8": ("a.zip", lambda: zipped_raw(b"caf\xe9.py"), "is not UTF-8"),
    "non_utf8_tar": ("a.tar", lambda: tarred(("caf\udce9.py", FILE, b"", "")), "is not UTF-8"),
    "control": ("a.zip", lambda: zipped(("a\x1b[2J.py", b"")), "has control characters"),
    "long_name": ("a.zip", lambda: zipped(("n" * 300, b"")), "is longer than 255 bytes"),
    "encrypted": ("a.zip", encrypted, "'a.py' is encrypted"),
    "truncated": ("a.zip", lambda: zipped(("a.py", b"x" * 1000))[:-30], "is not a whole zip archive"),
    "truncated_tar": ("a.tgz", lambda: gzip.compress(tarred(("a.py", FILE, b"x" * 5000, "")))[:-20], "not a whole tar"),
    "no_archive": ("a.zip", lambda: b"hello", "is not a whole zip archive"),
    "too_large": ("a.zip", lambda: b"\0" * (2 << 20), "the archive has 2.0 MiB; 1.0 MiB are allowed"),
}  # fmt: skip


def huge_header() -> bytes:
    """A long-name header that claims, and has, 64 MiB: tarfile would read it into memory."""
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 64 << 20
    return info.tobuf(tarfile.GNU_FORMAT) + b"a" * (64 << 20)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused_with_its_reason(tmp_path, name):
    file, make, reason = HOSTILE[name]
    (tmp_path / file).write_bytes(make())
    into = tmp_path / "inner" / "into"
    into.mkdir(parents=True)
    with pytest.raises(ArchiveError) as refused:
        unpack(tmp_path / file, into, SMALL)
    assert reason in str(refused.value)
    outside = {path for path in tmp_path.rglob("*") if not path.is_relative_to(into)}
    assert outside == {tmp_path / file, tmp_path / "inner"}
    written = sum(path.stat().st_size for path in into.rglob("*") if path.is_file())
    assert written <= SMALL.total_bytes
    assert not any(path.is_symlink() for path in into.rglob("*"))


@pytest.mark.parametrize("suffix", ["zip", "tar", "tar.gz", "tgz", "tar.bz2", "tar.xz"])
def test_a_harmless_archive_is_unpacked(tmp_path, suffix):
    archive = tmp_path / f"a.{suffix}"
    if suffix == "zip":
        archive.write_bytes(zipped(("student/", b""), ("student\\gelu.py", b"x = 1\n"), ("caf\u00e9/b.py", b"")))
    else:
        mode = {"tgz": "w:gz", "tar": "w"}.get(suffix, f"w:{suffix[4:]}")
        with tarfile.open(archive, mode) as tar:  # type: ignore[call-overload]
            for name, data in (("./student/gelu.py", b"x = 1\n"), ("caf\u00e9/b.py", b"")):
                info = tarfile.TarInfo(name)
                info.size, info.mode = len(data), 0o4000
                tar.addfile(info, io.BytesIO(data))
    into = tmp_path / "into"
    into.mkdir()
    unpack(archive, into)
    assert (into / "student/gelu.py").read_bytes() == b"x = 1\n"
    assert (into / "student/gelu.py").stat().st_mode & 0o7111 == 0
    assert (into / "caf\u00e9/b.py").exists()


def test_in_an_export_only_the_bad_members_are_left_out(tmp_path):
    (tmp_path / "a.tar").write_bytes(
        tarred(("ada/gelu.py", FILE, b"1", ""), ("eve/gelu.py", LINK, b"", "../ada/gelu.py"), ("bob/a", FILE, b"2", ""))
    )
    into = tmp_path / "into"
    into.mkdir()
    refused: dict[str, str] = {}
    unpack(tmp_path / "a.tar", into, STUDENT, refused)
    assert sorted(path.name for path in into.iterdir()) == ["ada", "bob"]
    assert refused == {"eve/gelu.py": "'eve/gelu.py' is a link; only files and folders are unpacked"}


@given(data=st.binary(max_size=600), kind=st.sampled_from(["a.zip", "a.tar", "a.tgz", "a.tar.xz"]), start=st.booleans())
def test_no_bytes_raise_anything_else(tmp_path_factory, data, kind, start):
    folder = tmp_path_factory.mktemp("fuzz")
    whole = zipped(("a.py", b"x")) if kind == "a.zip" else tarred(("a.py", FILE, b"x", ""))
    (folder / kind).write_bytes(whole[: len(data)] + data if start else data)
    (folder / "into").mkdir()
    with contextlib.suppress(ArchiveError):
        unpack(folder / kind, folder / "into")
    assert {path.name for path in folder.iterdir()} == {kind, "into"}
