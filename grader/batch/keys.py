"""What a grade depends on. Two grades with the same key are the same grade; a new key means grading again. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import reference

from ..rubric import Rubric
from .installed import digest, hashes, judge

# Of the rubric: what students see, what is handed out, what faults are tried; no grade depends on it.
_WITHOUT_EFFECT = ("report", "release", "adequacy")


@dataclass(frozen=True)
class Key:
    """The hash, and the digests of the parts that it is made of, to say what changed."""

    parts: Mapping[str, str]

    @property
    def sha256(self) -> str:
        """The key itself."""
        return digest(sorted(self.parts.items()))

    def changes(self, other: Mapping[str, str]) -> list[str]:
        """Names of the parts that differ."""
        return [part for part in self.parts if self.parts[part] != other.get(part)]


class Keys:
    """Makes the keys of one run, which differ in the exercise and the files only."""

    def __init__(self, rubric: Rubric, seed: int, device: str, root: Path) -> None:
        self._rubric = rubric
        self._common = {
            "grader": judge(root),
            "device": device,
            "seed": digest(seed),
        }
        self._rubrics = {name: digest(_items(rubric, name)) for name in rubric.exercises}
        exercises = {f"{name}.py" for name in reference.exercise_ids()}
        facts = root / "reference"
        shared = [path for path in sorted(facts.rglob("*.py")) if str(path.relative_to(facts)) not in exercises
                  and path.relative_to(facts).parts[0] != "solutions"]  # fmt: skip
        self._references = {name: digest(hashes([*shared, facts / f"{name}.py"], root)) for name in rubric.exercises}

    def of(self, exercise: str, files: Mapping[str, bytes]) -> Key:
        """The key of an exercise of a submission with these files, any of which it may import."""
        files_sha256 = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
        rubric, ref = self._rubrics[exercise], self._references[exercise]
        return Key({"files": digest(files_sha256), "rubric": rubric, "reference": ref, **self._common})


def _items(rubric: Rubric, exercise: str) -> dict[str, Any]:
    """All of the rubric that bears on an exercise: its own block and the defaults, in force as merged."""
    return {
        "exercise": exercise,
        "own": rubric.exercises[exercise].model_dump(mode="json"),
        "rest": rubric.model_dump(mode="json", exclude={"exercises", "title", "seed", "weights", *_WITHOUT_EFFECT}),
        "weights": rubric.weights_of(exercise),
    }
