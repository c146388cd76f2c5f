"""Searches a handout for what must not be in it: lines of the solutions, hidden values. Pure.

A line is found whatever it stands in: code, a comment, a docstring, a document, wrapped or indented otherwise. A
solution that was reworded, or whose names were changed, is not.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ..errors import ReleaseError
from .public import Hidden, is_number, is_seed

SHORTEST = 28  # characters without spaces; shorter lines are what any kernel has
LEAST_SEED = 1000  # smaller numbers are anywhere
# Said by the exercise itself: what it imports, and what its result is.
_COMMON = re.compile(r"^(import |from \S+ import )|^\w+ = torch\.(empty|zeros)\w*\([^#]*\)$")


@dataclass(frozen=True)
class Leak:
    """Something in a file of the handout that must not be there."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}"


def find_leaks(
    files: Mapping[str, bytes], solutions: Mapping[str, Sequence[str]], hidden: Sequence[Hidden], seeds: Sequence[int]
) -> list[Leak]:
    """Everything found, by file and line.

    `solutions` has each solution's lines, `seeds` the numbers that staff grade with. Raises ReleaseError for a seed
    that can't be searched for.
    """
    lines = {_squeezed(text): f"a line of {name}" for name, texts in solutions.items() for text in _telling(texts)}
    numbers = {*seeds, *(each.value for each in hidden if is_seed(each))}
    for seed in numbers:
        if seed < LEAST_SEED:
            raise ReleaseError(f"a hidden seed below {LEAST_SEED} can't be searched for; take a larger one")
    pattern = _pattern(numbers, hidden)
    found = []
    for name, data in sorted(files.items()):
        text = data.decode("utf-8", "replace")
        found += [Leak(name, line, what) for line, what in sorted(_of_file(text, lines, pattern))]
    return found


def _of_file(text: str, lines: Mapping[str, str], pattern: re.Pattern[str] | None) -> Iterator[tuple[int, str]]:
    squeezed = [_squeezed(line) for line in text.splitlines()]
    ends = list(accumulate(map(len, squeezed)))
    whole = "".join(squeezed)
    for line, what in lines.items():
        if (at := whole.find(line)) >= 0:
            yield bisect_right(ends, at) + 1, what
    for number, line in enumerate(text.splitlines() if pattern else (), 1):
        assert pattern is not None
        for match in pattern.finditer(re.sub(r"(?<=\d)_(?=\d)", "", line)):
            key = re.match(r"\w+", match["key"] or "seed")
            yield number, f"the hidden {key[0] if key else 'value'}"


def _telling(lines: Sequence[str]) -> Iterator[str]:
    """The lines that tell something of a solution: its code without what is behind it, its comments, its docstrings."""
    for line in lines:
        code, _, comment = line.strip().partition("  # ")
        for text in (code.lstrip("# "), comment):
            if len(_squeezed(text)) >= SHORTEST and not _COMMON.match(text):
                yield text


def _squeezed(text: str) -> str:
    """Without spaces, and without what a comment or a list begins with: a line is found however it is wrapped."""
    return re.sub(r"\s+", "", re.sub(r"^\s*(#:?|>|[-*] )\s*", "", text)).strip('"')


def _pattern(seeds: set[int], hidden: Sequence[Hidden]) -> re.Pattern[str] | None:
    alternatives = [rf"(?<![\w.]){form}(?![\w.]*\d)" for seed in seeds for form in (f"0*{seed}", f"0[xX]0*{seed:x}")]
    keys = [
        rf"\b{re.escape(each.key)}\b\W{{1,4}}{re.escape(format(each.value, 'g'))}0*(?![\w.])"
        for each in hidden
        if is_number(each.value) and not is_seed(each)
    ]
    if not alternatives and not keys:
        return None
    named = "|".join(dict.fromkeys(keys)) or "(?!)"
    return re.compile(f"(?:{'|'.join(alternatives) or '(?!)'})|(?P<key>{named})", re.IGNORECASE)
