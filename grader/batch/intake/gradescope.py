"""Gradescope's export of submissions: a folder each, and `submission_metadata.yml`, which says whose they are.

Source of the form: exports as described by course staff; the keys of the YAML are the folders' names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from ...errors import GraderError
from .handed import Handed, Person

METADATA = "submission_metadata.yml"


class _Loader(yaml.SafeLoader):
    """Dates stay text: what they mean is decided in one place."""


_Loader.yaml_implicit_resolvers = {
    key: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for key, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def recognises(root: Path) -> bool:
    """By its metadata file."""
    return (root / METADATA).is_file()


def read(root: Path) -> Iterator[Handed]:
    """One attempt an entry of the metadata. Raises GraderError where the file is not what Gradescope writes."""
    path = root / METADATA
    try:
        document = yaml.load(path.read_text("utf-8"), Loader=_Loader)  # noqa: S506 - a SafeLoader
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise GraderError(f"{path}: can't be read: {' '.join(str(error).split())}; export it again") from None
    if not isinstance(document, dict):
        raise GraderError(f"{path}: has no entries; export it again, or force another --kind")
    for key, entry in document.items():
        folder, entry = str(key), entry if isinstance(entry, dict) else {}
        people = tuple(_people(entry.get(":submitters")))
        inside = Path(folder).name == folder and folder not in ("", ".", "..")
        there = inside and (root / folder).is_dir() and not (root / folder).is_symlink()
        yield Handed(
            folder,
            people,
            folders=(root / folder,) if there else (),
            submitted=str(entry.get(":created_at") or ""),
            problem="" if there else "the export has no folder of this name",
            notes=() if people else ("Gradescope names no submitter",),
        )


def _people(submitters: Any) -> Iterator[Person]:
    for one in submitters if isinstance(submitters, list) else ():
        if isinstance(one, dict):
            name, sid, email = (str(one.get(key) or "").strip() for key in (":name", ":sid", ":email"))
            yield Person(name, sid, email)
