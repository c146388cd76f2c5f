"""The mutants of a solution: one fault each, without those that come out alike, and a spread of them to grade. Pure."""

from __future__ import annotations

import ast
import difflib
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from .faults import MUTATORS
from .place import Place
from .source import Source


@dataclass(frozen=True)
class Mutant:
    """A solution with one fault put in. `before` and `after` are the lines that it changes, white space joined."""

    exercise: str
    mutator: str
    function: str
    branches: tuple[str, ...]
    line: int
    before: str
    after: str
    original: str
    source: str

    @property
    def key(self) -> tuple[str, ...]:
        """What stays the same while other lines move."""
        return (self.exercise, self.mutator, self.function, self.before, self.after)

    @property
    def diff(self) -> str:
        """The changed lines, as a unified diff without context."""
        lines = difflib.unified_diff(self.original.splitlines(), self.source.splitlines(), lineterm="", n=0)
        return "\n".join(list(lines)[2:])

    def __str__(self) -> str:
        return f"{self.exercise}:{self.line} {self.mutator}"


@cache
def mutants_of(exercise: str, text: str) -> tuple[Mutant, ...]:
    """Every mutant of a solution's text, in the order of its lines."""
    source = Source(text)
    found: dict[str, Mutant] = {}
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.expr | ast.stmt) or node.lineno not in source.solution_lines:
            continue
        place = Place(source, node)
        for name, mutator in MUTATORS.items():
            for target, replacement in mutator(place):
                mutated = source.replaced(target, replacement)
                if mutated == text or mutated in found or not _parses(mutated):
                    continue
                before, after = source.lines_with(target, replacement)
                function = place.functions[0].name if place.functions else ""
                branches = tuple(source.branches_around(target))
                found[mutated] = Mutant(
                    exercise, name, function, branches, target.lineno, before, after, text, mutated
                )  # fmt: skip
    return tuple(sorted(found.values(), key=lambda mutant: (mutant.line, mutant.mutator, mutant.after)))


def spread(mutants: Iterable[Mutant], most: int) -> list[Mutant]:
    """At most `most` mutants: one of each mutator in turn, so that no fault that is easy to make crowds out others.

    Which one is chosen depends on its text only: a change elsewhere in the solution leaves the choice as it is.
    """
    by_mutator: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        by_mutator.setdefault(mutant.mutator, []).append(mutant)
    queues = [sorted(group, key=_digest) for _, group in sorted(by_mutator.items())]
    chosen: list[Mutant] = []
    while len(chosen) < most and any(queues):
        for queue in queues:
            if queue and len(chosen) < most:
                chosen.append(queue.pop(0))
    return sorted(chosen, key=lambda mutant: (mutant.line, mutant.mutator, mutant.after))


def _digest(mutant: Mutant) -> str:
    return hashlib.sha256("\0".join(mutant.key).encode()).hexdigest()


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True
