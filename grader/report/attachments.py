"""The files beside a result: pictures and scripts of failed items, in a folder of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

SUFFIXES = ("svg", "py")


def folder_of(result: Path) -> Path:
    """The folder that belongs to a result file: `result-files` for `result.json`."""
    return result.with_name(f"{result.stem}-files")


def save(folder: Path, attachments: Mapping[str, Mapping[str, str]]) -> None:
    """Write each item's attachments, by suffix; those of an earlier run that it no longer has go. Raises OSError."""
    for item, texts in attachments.items():
        for suffix in SUFFIXES:
            path = folder / f"{item}.{suffix}"
            if suffix in texts:
                folder.mkdir(exist_ok=True)
                path.write_text(texts[suffix], encoding="utf-8")
            else:
                path.unlink(missing_ok=True)
