"""The items of a rubric: what is judged and scored as one. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from reference.exercise import Case, Exercise, TensorSpec

from .errors import SelectionError
from .rubric import Benchmark, Rubric
from .scoring import item_maximum

# Runs the rounds of a timed item: (before, timed, after, number), as pytest-benchmark does.
Rounds = Callable[[Callable[[], None], Callable[[], None], Callable[[], None], int], None]


@dataclass(frozen=True)
class Item:
    """A check of an exercise in a dtype, "" where it has no tensors; for `speed`, one benchmark."""

    exercise: str
    check: str
    dtype: str
    max_points: float
    benchmark: Benchmark | None = field(default=None, hash=False)

    def __str__(self) -> str:
        of = self.benchmark or self.dtype
        return f"{self.exercise}-{self.check}-{of}" if of else f"{self.exercise}-{self.check}"


def items_of(rubric: Rubric, exercises: Sequence[str] = ()) -> list[Item]:
    """All items, in the rubric's order, or those of the named exercises. Raises SelectionError for an unknown one."""
    for name in exercises:
        if name not in rubric.exercises:
            raise SelectionError(
                f"--exercise {name}: the rubric has no such exercise; it has {', '.join(rubric.exercises)}"
            )
    return [item for name in rubric.exercises if not exercises or name in exercises for item in _of(rubric, name)]


def _of(rubric: Rubric, name: str) -> Iterator[Item]:
    exercise, weights = rubric.exercises[name], rubric.weights_of(name)
    for check in weights:
        if check == "speed":
            most = item_maximum(exercise.points, weights, check, len(exercise.speed))
            yield from (Item(name, check, benchmark.dtype, most, benchmark) for benchmark in exercise.speed)
        else:
            dtypes = rubric.dtypes_of(name)
            most = item_maximum(exercise.points, weights, check, len(dtypes))
            yield from (Item(name, check, dtype, most) for dtype in dtypes)


def benchmark_case(exercise: Exercise, benchmark: Benchmark) -> Case:
    """The case that a benchmark times."""
    specs = zip(exercise.tensors, benchmark.sizes, strict=False)
    return Case(exercise.id, "speed", benchmark.dtype, tuple(TensorSpec(name, shape) for name, shape in specs),
                options=tuple(benchmark.options.items()))  # fmt: skip
