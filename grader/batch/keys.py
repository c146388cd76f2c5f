"""What a grade depends on. Two grades with the same key are the same grade; a new key means grading again. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import reference

from ..rubric import Rubric

_LIBRARIES = ("kernel-grader", "torch", "triton", "numpy", "hypothesis")
# Not what judges: a change here changes no verdict.
_NOT_JUDGING = ("batch", "report")


@dataclass(frozen=True)
class Key:
    """The hash, and the digests of the parts that it is made of, to say what changed."""

    parts: Mapping[str, str]

    @property
    def sha256(self) -> str:
        """The key itself."""
        return _digest(sorted(self.parts.items()))

    def changes(self, other: Mapping[str, str]) -> list[str]:
        """Names of the parts that differ."""
        return [part for part in self.parts if self.parts[part] != other.get(part)]


class Keys:
    """Makes the keys of one run, which differ in the exercise and the files only."""

    def __init__(self, rubric: Rubric, seed: int, device: str, root: Path) -> None:
        self._rubric = rubric
        grader = root / "grader"
        judging = [
            path for path in sorted(grader.rglob("*.py")) if path.relative_to(grader).parts[0] not in _NOT_JUDGING
        ]
        self._common = {
            "grader": _digest([{name: _version(name) for name in _LIBRARIES}, _hashes(judging, root)]),
            "device": device,
            "seed": _digest(seed),
        }
        self._rubrics = {name: _digest(_items(rubric, name)) for name in rubric.exercises}
        exercises = {f"{name}.py" for name in reference.exercise_ids()}
        facts = root / "reference"
        shared = [path for path in sorted(facts.rglob("*.py")) if str(path.relative_to(facts)) not in exercises
                  and path.relative_to(facts).parts[0] != "solutions"]  # fmt: skip
        self._references = {name: _digest(_hashes([*shared, facts / f"{name}.py"], root)) for name in rubric.exercises}

    def of(self, exercise: str, files: Mapping[str, bytes]) -> Key:
        """The key of an exercise of a submission with these files, any of which it may import."""
        hashes = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
        rubric, ref = self._rubrics[exercise], self._references[exercise]
        return Key({"files": _digest(hashes), "rubric": rubric, "reference": ref, **self._common})


def _items(rubric: Rubric, exercise: str) -> dict[str, Any]:
    """All of the rubric that bears on an exercise: its own block and the defaults, in force as merged."""
    return {
        "exercise": exercise,
        "own": rubric.exercises[exercise].model_dump(mode="json"),
        "rest": rubric.model_dump(mode="json", exclude={"exercises", "title", "seed", "weights"}),
        "weights": rubric.weights_of(exercise),
    }


def _hashes(paths: Iterable[Path], root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"
