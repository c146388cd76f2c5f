"""The command `grader release`: makes, proves and writes the handout and Gradescope's archive. Trusted side."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from ..batch.commands import hidden_seed
from ..cli_input import errors_end_the_command
from ..errors import ReleaseError
from ..judging import default_root
from ..rubric import load_rubric
from ..whole import check_folder_of, replacing
from . import tree
from .gradescope import archive_files
from .leaks import find_leaks
from .prove import prove
from .public import public_rubric
from .starters import Cut, cuts

_MOST_LEAKS = 20


def release(
    out: Annotated[Path | None, typer.Option(help="where the handout goes; must be free")] = None,
    gradescope: Annotated[Path | None, typer.Option(help="a zip to write: Gradescope's autograder")] = None,
    check: Annotated[bool, typer.Option("--check", help="prove everything, write nothing; for CI")] = False,
    rubric: Annotated[Path | None, typer.Option(help="another policy")] = None,
    seed_file: Annotated[Path | None, typer.Option(help="file with the hidden seed (or set GRADER_SEED)")] = None,
) -> None:
    """Make the students' repository and Gradescope's archive; neither is written unless both are proved to be good."""
    with errors_end_the_command():
        if check == (out is not None or gradescope is not None):
            raise ReleaseError("give --out DIR, --gradescope ZIP or both, or --check alone")
        root = default_root()
        if not (root / "reference" / "solutions").is_dir():
            raise ReleaseError(f"{root}: has no reference/solutions; run this in the staff's repository")
        make(root, rubric or root / "rubric.yaml", out, gradescope, hidden_seed(seed_file), typer.echo)


def make(root: Path, rubric: Path, out: Path | None, gradescope: Path | None, seed: int | None,
         say: Callable[[str], None]) -> None:  # fmt: skip
    """Make what is asked for; with neither `out` nor `gradescope`, prove only. Raises GraderError."""
    _free(out, gradescope)
    staff = load_rubric(rubric).rubric
    policy = rubric.read_bytes()
    public, hidden = public_rubric(policy)
    starters = cuts(root, staff)
    compare(root, starters)
    files = tree.handout(root, staff, public, starters)
    # In the source that bytecode is made of: strings would still be found there, but no comment, and no line.
    solutions = {f"the solution of {name}": each.solution for name, each in starters.items()}
    leaks = find_leaks(tree.with_ci(files, staff), solutions, hidden, [] if seed is None else [seed])
    if leaks:
        told = "\n".join(f"  {leak}" for leak in leaks[:_MOST_LEAKS])
        more = f"\n  and {len(leaks) - _MOST_LEAKS} more" if len(leaks) > _MOST_LEAKS else ""
        raise ReleaseError(f"the handout would give away what it must not; nothing was written:\n{told}{more}")
    if staff.release.reference == "compiled":
        files = tree.compiled(files, staff.exercises)
    files = tree.with_ci(files, staff)
    if not (staff.release.url and staff.release.tag):
        say("no CI files: the rubric's release has no url and tag from which they could fetch the handout")
    parent = (out or Path(tempfile.gettempdir()) / "x").absolute().parent
    with tempfile.TemporaryDirectory(prefix=".grader-release-", dir=parent) as scratch:
        folder = Path(scratch, "handout")
        folder.mkdir()
        tree.write(files, folder)
        load_rubric(folder / "rubric.yaml")
        prove(folder, staff, root / "reference" / "solutions", say)
        if gradescope is not None:
            with replacing(gradescope) as temporary:
                tree.archive(archive_files(files, policy, seed), temporary)
            say(f"wrote {gradescope}")
        if out is not None:
            # Grading left files there that are no part of it.
            finished = Path(scratch, "finished")
            finished.mkdir()
            tree.write(files, finished)
            tree.move(finished, out)
            say(f"wrote {out}: {len(files)} files")


def compare(root: Path, starters: dict[str, Cut]) -> None:
    """Raises ReleaseError where `student/` is not what the solutions give."""
    for name, each in starters.items():
        path = root / name
        if not path.is_file() or path.read_text("utf-8") != each.text:
            raise ReleaseError(f"{path}: is not what its solution gives; write it anew: make starters")


def _free(out: Path | None, gradescope: Path | None) -> None:
    if out is not None and (out.is_symlink() or (out.exists() and not (out.is_dir() and not any(out.iterdir())))):
        raise ReleaseError(f"--out {out}: is there already; name a folder that is not, or an empty one")
    for option, path in (("--out", out), ("--gradescope", gradescope)):
        check_folder_of(path, option)
