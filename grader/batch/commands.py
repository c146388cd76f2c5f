"""The commands of staff: `grader batch` and `grader override`. Trusted side.

What needs the extra `staff` is imported on use.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ..cli_input import errors_end_the_command
from ..errors import GraderError

WIDTH = 110  # where the output goes to a file
_NEEDED = ("sqlalchemy", "copydetect")


def batch(
    submissions: Annotated[Path, typer.Argument(help="folder or archive that the platform exported")],
    out: Annotated[Path, typer.Option(help="where the book goes; the ledger there makes the run resumable")],
    kind: Annotated[
        str | None, typer.Option(help="gradescope, moodle, canvas, classroom, classroom50 or plain")
    ] = None,
    attempt: Annotated[int | None, typer.Option(min=1, help="grade this attempt instead of the last")] = None,
    due: Annotated[str | None, typer.Option(help="mark what came later as late, where the platform tells")] = None,
    roster: Annotated[Path | None, typer.Option(help="CSV of the class")] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=1024, help="submissions at a time (default: one a core or GPU)")
    ] = None,
    gpus: Annotated[str, typer.Option(help="auto, none, or indices or UUIDs: 0,1")] = "auto",
    cluster: Annotated[Path | None, typer.Option(help="file on a cluster's jobs: docs/cluster.md")] = None,
    timeout: Annotated[float, typer.Option(min=1, help="seconds for one submission")] = 3600.0,
    rubric: Annotated[Path | None, typer.Option(help="another policy")] = None,
    exercise: Annotated[list[str] | None, typer.Option(help="grade only this; may be repeated")] = None,
    only: Annotated[list[str] | None, typer.Option(help="grade only submissions like this: 'a*'")] = None,
    seed_file: Annotated[Path | None, typer.Option(help="file with the hidden seed (or set GRADER_SEED)")] = None,
    ledger: Annotated[str | None, typer.Option(help="database URL (default: OUT/ledger.sqlite)")] = None,
    leaderboard: Annotated[Path | None, typer.Option(help="CSV of who takes part: who,pseudonym")] = None,
    dry_run: Annotated[bool, typer.Option(help="grade what changed, say who would move, leave the book")] = False,
    unsafe: Annotated[bool, typer.Option(help="grade without a sandbox")] = False,
) -> None:
    """Grade a class. Run again, it grades only what is not graded yet or has changed."""
    console = Console(highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = WIDTH
    with errors_end_the_command():
        try:
            _require()
            from ..judging import default_root
            from .run import Options, grade_class

            root = default_root()
            options = Options(
                submissions, out, root, rubric or root / "rubric.yaml", kind, attempt, due, roster, leaderboard, ledger,
                jobs, gpus, cluster, timeout, exercise or (), only or (), hidden_seed(seed_file), unsafe, dry_run,
            )  # fmt: skip
            status = grade_class(options, console)
        except KeyboardInterrupt:
            typer.echo("interrupted: what was graded is kept; run the same command again to go on", err=True)
            raise typer.Exit(130) from None
    raise typer.Exit(status)


def override(
    out: Annotated[Path, typer.Argument(help="the output folder of grader batch")],
    submission: Annotated[str, typer.Argument(help="its id, as in the gradebook")],
    reason: Annotated[str, typer.Option(help="why; kept with it")],
    points: Annotated[float | None, typer.Option(help="what it gets instead")] = None,
    exercise: Annotated[str | None, typer.Option(help="for this exercise only, else for the total")] = None,
    withdraw: Annotated[bool, typer.Option(help="take an earlier override back")] = False,
    hold: Annotated[bool, typer.Option(help="hold the grade back")] = False,
    release: Annotated[bool, typer.Option(help="hold it back no longer")] = False,
    author: Annotated[str | None, typer.Option(help="who decided (default: the user's name)")] = None,
    ledger: Annotated[str | None, typer.Option(help="database URL (default: OUT/ledger.sqlite)")] = None,
) -> None:
    """Change a grade by hand, or hold it back. What was graded stays in the ledger; the last override counts."""
    with errors_end_the_command():
        _require()
        from .run import author as user
        from .staff import decide

        if sum((points is not None, withdraw, hold, release)) != 1:
            raise GraderError("give one of --points, --withdraw, --hold and --release")
        decide(out, submission, exercise or "", points, None if not (hold or release) else hold, reason,
               author or user(), ledger)  # fmt: skip
        typer.echo(f"{submission}: kept in the ledger, and in {out}/gradebook.csv")


def hidden_seed(file: Path | None) -> int | None:
    """The seed of a file or of GRADER_SEED, None where neither is given. Raises GraderError; never shows the seed."""
    name, text = "GRADER_SEED", os.environ.get("GRADER_SEED", "")
    if file is not None:
        name = f"--seed-file {file}"
        try:
            text = file.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            raise GraderError(f"{name}: can't be read") from None
    if file is None and not text.strip():
        return None
    if not text.strip().isdecimal() or len(text.strip()) > 18:
        raise GraderError(f"{name}: must be a whole number of at most 18 digits")
    return int(text)


def _require() -> None:
    import importlib.util

    missing = [module for module in _NEEDED if importlib.util.find_spec(module) is None]
    if missing:
        raise GraderError(f"grading a class needs {' and '.join(missing)}: pip install 'kernel-grader[staff]'")
