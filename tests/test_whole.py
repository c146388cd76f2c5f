"""A file is replaced in one step or not at all, and what is no file is left in its place."""

from __future__ import annotations

import os
import stat

import pytest

from grader.whole import replacing


def test_a_file_is_replaced_at_the_end_or_stays_as_it_was(tmp_path):
    path = tmp_path / "result.json"
    with replacing(path) as temporary:
        temporary.write_text("first")
        assert not path.exists()

    def broken_off() -> None:
        with replacing(path) as temporary:
            temporary.write_text("second")
            raise ValueError("broken off")

    with pytest.raises(ValueError, match="broken off"):
        broken_off()
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path):
    path, link = tmp_path / "result.json", tmp_path / "link"
    link.symlink_to(path)
    for text in ("first", "second"):
        with replacing(link) as temporary:
            temporary.write_text(text)
        assert link.is_symlink()
        assert path.read_text() == text


def test_what_is_no_file_is_written_itself(tmp_path):
    """As /dev/null, which root could replace."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with replacing(pipe) as temporary:
            temporary.write_text("result")
        assert os.read(reader, 100) == b"result"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
