"""Trusted side: the power of each exercise's checks: all mutants graded, a few at a time, and what came of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import reference

from ..errors import SelectionError
from ..machine import Machine
from ..rubric import LoadedRubric
from ..threads import guard_ast_parse
from .equivalent import EVERY, Mark, Sorted, read_marks, sort_out
from .examine import Cache, Finding, examine
from .mutants import Mutant, mutants_of, spread


@dataclass(frozen=True)
class Power:
    """What the checks of one exercise caught. `wrongly_marked` are equivalent mutants that were caught after all."""

    exercise: str
    possible: int
    findings: list[tuple[Mutant, Finding]]
    marked: list[tuple[Mutant, Mark]]
    stale: list[Mark]
    wrongly_marked: list[tuple[Mutant, Finding]] = field(default_factory=list)

    @property
    def caught(self) -> list[Finding]:
        """The findings on mutants that failed an item."""
        return [finding for _, finding in self.findings if finding.caught]

    @property
    def survivors(self) -> list[tuple[Mutant, Finding]]:
        """Mutants that passed everything."""
        return [(mutant, f) for mutant, f in self.findings if not f.caught and not f.fault_of_the_grader]

    @property
    def unclear(self) -> list[tuple[Mutant, Finding]]:
        """Mutants that the grader could not judge."""
        return [(mutant, finding) for mutant, finding in self.findings if finding.fault_of_the_grader]

    @property
    def share(self) -> float:
        """The part of the judged mutants that was caught."""
        judged = len(self.caught) + len(self.survivors)
        return len(self.caught) / judged if judged else 0.0

    @property
    def median_cases(self) -> float:
        """Cases that an item took to catch a mutant, the median."""
        return median([finding.cases for finding in self.caught] or [0])


@dataclass(frozen=True)
class Plan:
    """What to grade: all mutants of each exercise or a spread of `most`, and whether the marked ones too."""

    exercises: Sequence[str] = ()
    most: int | None = None
    marked_too: bool = False
    jobs: int = max(1, os.cpu_count() or 1)


def kernel_exercises(loaded: LoadedRubric, names: Sequence[str]) -> list[str]:
    """The named exercises, or all of the rubric that are kernels. Raises SelectionError for an unknown one."""
    for name in names:
        if name not in loaded.rubric.exercises:
            raise SelectionError(
                f"{name}: the rubric has no such exercise; it has {', '.join(loaded.rubric.exercises)}"
            )
    return [name for name in names or loaded.rubric.exercises if _is_kernel(name)]


def _is_kernel(name: str) -> bool:
    try:
        return bool(reference.load(name).cases)
    except KeyError:  # an exercise of another kind
        return False


def sorted_mutants(root: Path, exercise: str) -> Sorted:
    """An exercise's mutants, parted by the marks. Raises SelectionError where there is no solution."""
    path = root / "reference" / "solutions" / f"{exercise}.py"
    if not path.is_file():
        raise SelectionError(f"{path} is missing: without a solution there is nothing to put faults into")
    marks = read_marks(path.parent / "equivalent.yaml")
    own = sort_out(mutants_of(exercise, path.read_text()), marks.get(exercise, []))
    everywhere = sort_out(own.to_grade, marks.get(EVERY, []))
    return Sorted(everywhere.to_grade, own.marked + everywhere.marked, own.stale)


def measure(root: Path, loaded: LoadedRubric, machine: Machine, plan: Plan, cache: Cache | None,
            progress: Callable[[Mutant, Finding], None] = lambda *_: None) -> list[Power]:  # fmt: skip
    """Grade the mutants of every exercise of the plan."""
    guard_ast_parse()
    parted = {name: sorted_mutants(root, name) for name in kernel_exercises(loaded, plan.exercises)}
    chosen = {name: spread(each.to_grade, plan.most or len(each.to_grade)) for name, each in parted.items()}
    marked = {name: [mutant for mutant, _ in each.marked] if plan.marked_too else [] for name, each in parted.items()}
    found: dict[Mutant, Finding] = {}
    # Longest first would be better still, but which is longest is known only afterwards.
    with ThreadPoolExecutor(plan.jobs, thread_name_prefix="mutant") as pool:
        futures = {
            pool.submit(_cached, mutant, loaded, machine, cache): mutant
            for name in reversed(parted)
            for mutant in (*chosen[name], *marked[name])
        }
        for future in as_completed(futures):
            found[futures[future]] = future.result()
            progress(futures[future], future.result())
    return [
        Power(
            name,
            len(each.to_grade),
            [(mutant, found[mutant]) for mutant in chosen[name]],
            each.marked,
            each.stale,
            [(mutant, found[mutant]) for mutant in marked[name] if found[mutant].caught],
        )
        for name, each in parted.items()
    ]


def _cached(mutant: Mutant, loaded: LoadedRubric, machine: Machine, cache: Cache | None) -> Finding:
    finding = cache.get(mutant) if cache else None
    if finding is None:
        finding = examine(mutant, loaded, machine)
        if cache:
            cache.put(mutant, finding)
    return finding
