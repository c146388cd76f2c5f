"""How alike submissions are, by copydetect's winnowed fingerprints of tokens. Trusted side. Needs the extra `staff`.

A report for people to look at, never a verdict: short kernels that do the same work are alike. Names and comments do
not count; what is in the starter, or in more than `COMMON` submissions, does not either.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ..errors import GraderError

# Lengths in characters of the token text, where a name is one character: the least match is found from
# TOKENS + WINDOW - 1 on.
TOKENS = 25
WINDOW = 1
COMMON = 10
LEAST_SHARE = 0.6
_LEAST_PRINTS = 20


def pairs(sources: Mapping[str, Path], starter: Path | None) -> list[tuple[str, str, float]]:
    """Pairs of submissions by how much of the shorter one is in the other, from LEAST_SHARE on, most alike first."""
    known = _prints(starter) if starter is not None else frozenset()
    prints = {name: found for name, path in sources.items() if (found := _prints(path) - known)}
    spread = Counter(one for found in prints.values() for one in found)
    common = {one for one, count in spread.items() if count > COMMON}
    alike = []
    for first, second in _sharing(prints, common):
        mine, theirs = prints[first] - common, prints[second] - common
        if min(len(mine), len(theirs)) >= _LEAST_PRINTS:
            share = len(mine & theirs) / min(len(mine), len(theirs))
            if share >= LEAST_SHARE:
                alike.append((first, second, share))
    return sorted(alike, key=lambda pair: (-pair[2], pair[0], pair[1]))


def compare_class(out: Path, submissions: Sequence[str], files: Mapping[str, str], starters: Path) -> list[list[str]]:
    """Lines for `similarity.csv`: exercise, two submissions, share. Reads what was staged in `out/submissions`."""
    lines = []
    for exercise, file in files.items():
        sources = {name: path for name in submissions if (path := out / "submissions" / name / file).is_file()}
        starter = starters / file
        for first, second, share in pairs(sources, starter if starter.is_file() else None):
            lines.append([exercise, first, second, f"{share:.2f}"])
    return lines


def _sharing(prints: Mapping[str, frozenset[int]], common: set[int]) -> Iterator[tuple[str, str]]:
    """Pairs that share anything at all."""
    having: dict[int, list[str]] = {}
    seen: set[tuple[str, str]] = set()
    for name, found in prints.items():
        for one in found - common:
            for other in having.setdefault(one, []):
                if (other, name) not in seen:
                    seen.add((other, name))
                    yield other, name
            having[one].append(name)


def _prints(path: Path) -> frozenset[int]:
    from copydetect.detector import CodeFingerprint  # takes a second, for matplotlib

    text = path.read_bytes().decode("utf-8", "replace")
    try:
        found = CodeFingerprint(str(path), TOKENS, WINDOW, language="python", fp=io.StringIO(text))
    except (IndexError, ValueError) as error:  # what copydetect raises for files shorter than TOKENS
        if len(text) > 10 * TOKENS:
            raise GraderError(f"{path}: copydetect can't take its fingerprint: {error}") from None
        return frozenset()
    return frozenset(int(one) for one in found.hashes)
