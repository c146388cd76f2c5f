"""Cuts starter files from the staff solutions. Trusted side.

In `reference/solutions/<id>.py` all between `# solution: begin` and `# solution: end` is left out. In its place come
the region's lines that begin with `#:`, without that mark; in a region inside a function, also a TODO, unless those
lines give one, and the NotImplementedError by which the grader knows that nothing is written yet.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import reference
from reference.harness import Harness

from ..adequacy.source import BEGIN, END
from ..errors import GraderError, ReleaseError
from ..judging import default_root
from ..rubric import Rubric, load_rubric

KEPT = "#:"
TODO = "# TODO: write kernels with @triton.jit above, launch them here, and return the result."


@dataclass(frozen=True)
class Cut:
    """A starter file, and the lines of the solution that are not in it."""

    text: str
    solution: tuple[str, ...]


def cuts(root: Path, rubric: Rubric) -> dict[str, Cut]:
    """The starter of each exercise, by the file it goes to. Raises ReleaseError."""
    found = {}
    for exercise in rubric.exercises:
        path = root / "reference" / "solutions" / f"{exercise}.py"
        if not path.is_file():
            raise ReleaseError(f"{path}: there is no solution; the starter of {exercise} is cut from it")
        measuring = isinstance(reference.find(exercise), Harness)
        entries = ["benchmark", "profile"] if measuring else [rubric.entry_of(exercise).partition(".")[0]]
        file = f"student/{rubric.file_of(exercise)}"
        found[file] = cut(path, file, entries)
    return found


def cut(path: Path, file: str, entries: list[str]) -> Cut:
    """Cut the solution at `path` for a starter that students know as `file`. Raises ReleaseError with file and line.

    `entries` are the functions that students write.
    """
    out: list[str] = []
    solution: list[str] = []
    begun: tuple[int, list[str]] | None = None
    function = ""
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        text = line.strip()
        if text == BEGIN and begun is None:
            begun = number, []
        elif text == END and begun is not None:
            out += _instead(begun[1], line[: -len(END)], function, file)
            solution += [each for each in begun[1] if not each.strip().startswith(KEPT)]
            begun = None
        elif text in (BEGIN, END):
            raise ReleaseError(f"{path}:{number}: {text!r} in a region, or without one; marks come in pairs")
        elif begun is not None:
            begun[1].append(line)
        else:
            function = found[1] if (found := re.match(r"def (\w+)", line)) else function
            out.append(line)
    if begun is not None:
        raise ReleaseError(f"{path}:{begun[0]}: {BEGIN!r} without {END!r}; add it where the solution ends")
    if not any(line.strip() for line in solution):
        raise ReleaseError(f"{path}: has no lines between {BEGIN!r} and {END!r}; mark what students write")
    text = re.sub(r"\n{4,}", "\n\n\n", "\n".join(out).strip("\n")) + "\n"
    _check(path, text, entries)
    return Cut(text, tuple(solution))


def _instead(region: list[str], indent: str, function: str, file: str) -> list[str]:
    kept = [line.strip()[len(KEPT) :].removeprefix(" ") for line in region if line.strip().startswith(KEPT)]
    if indent:
        kept = [*(kept or [TODO]), f'raise NotImplementedError("{function} is not written yet: {file}")']
    return [(indent + line).rstrip() for line in kept]


def _check(path: Path, text: str, entries: list[str]) -> None:
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise ReleaseError(f"{path}: the starter cut from it is no Python: line {error.lineno}: {error.msg}") from None
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for entry in entries:
        if entry not in functions:
            raise ReleaseError(f"{path}: its starter has no function {entry!r}; leave its head outside the regions")
        if not isinstance(functions[entry].body[-1], ast.Raise):
            raise ReleaseError(
                f"{path}: its starter's function {entry!r} is written; mark its body with {BEGIN!r} and {END!r}"
            )


def main() -> None:
    """Write `student/` anew."""
    root = default_root()
    try:
        for name, each in cuts(root, load_rubric(root / "rubric.yaml").rubric).items():
            (root / name).write_text(each.text, "utf-8")
    except GraderError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
