"""The facts of every exercise. Finds the exercises by their files; imports nothing from the grader."""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path

from .exercise import Exercise
from .harness import Harness

_NOT_EXERCISES = {"__init__", "exercise", "harness", "strategies", "values"}


def exercise_ids() -> list[str]:
    """The ids of all exercises, sorted: one per `reference/<id>.py`, or `.pyc` in a handout that was compiled."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py*") if path.stem not in _NOT_EXERCISES)


def kernel_exercise_ids() -> list[str]:
    """The ids of the exercises that `load` gives."""
    return [exercise_id for exercise_id in exercise_ids() if isinstance(find(exercise_id), Exercise)]


@cache
def find(exercise_id: str) -> Exercise | Harness:
    """The exercise with this id, whichever kind it is. Raises KeyError where there is none."""
    if exercise_id not in exercise_ids():
        raise KeyError(f"there is no exercise {exercise_id!r}; known: {', '.join(exercise_ids())}")
    exercise = importlib.import_module(f"{__name__}.{exercise_id}").EXERCISE
    if not isinstance(exercise, Exercise | Harness) or exercise.id != exercise_id:
        raise TypeError(
            f"reference/{exercise_id}.py: EXERCISE must be an Exercise or a Harness with the id {exercise_id!r}"
        )
    return exercise


def load(exercise_id: str) -> Exercise:
    """The exercise in writing kernels with this id. Raises KeyError where there is none."""
    exercise = find(exercise_id)
    if not isinstance(exercise, Exercise):
        raise KeyError(f"{exercise_id!r} is no exercise in writing kernels")
    return exercise
