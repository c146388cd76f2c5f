"""The command `grader inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from . import hardware, inspection
from .cli_input import WIDTH, errors_end_the_command, known_exercises
from .judging import default_root
from .machine import Machine
from .report.inspection import show
from .rubric import load_rubric
from .submission import Submission
from .whole import check_folder_of


def inspect(
    exercises: Annotated[list[str] | None, typer.Argument(help="ids; all of the rubric's without any")] = None,
    submission: Annotated[Path | None, typer.Option(help="the folder with the exercise files")] = None,
    gpu: Annotated[list[str] | None, typer.Option(help="A100, H200, 'RTX 4090', …; may be repeated")] = None,
    configs: Annotated[int, typer.Option(min=1, max=8, help="configurations of an autotuned kernel")] = 1,
    ptx: Annotated[bool, typer.Option("--ptx", help="show the instructions worth looking at")] = False,
    json: Annotated[Path | None, typer.Option(help="also write everything to this file")] = None,
    rubric: Annotated[Path | None, typer.Option(help="the policy to take benchmarks from")] = None,
) -> None:
    """Say what the compiler made of the kernels at the benchmarks' sizes. Needs no GPU."""
    with errors_end_the_command():
        loaded = load_rubric(rubric or default_root() / "rubric.yaml")
        names = known_exercises(loaded.rubric, exercises or [])
        folder = Submission(submission or default_root() / "student")
        gpus = tuple(dict.fromkeys(hardware.named(name) for name in gpu or inspection.DEFAULT_GPUS))
        check_folder_of(json, "--json")
        machine = Machine(loaded.rubric.limits, "cpu")
        try:
            kernels, failures = inspection.Inspector(loaded.rubric, folder, machine, gpus, configs).run(names)
            versions = machine.interpreter.versions
        finally:
            machine.close()
    show(Console(highlight=False, width=WIDTH), kernels, failures, ptx=ptx)
    if json is not None:
        found = inspection.Inspection(
            submission=folder.path.resolve().name,
            versions=versions,
            kernels=[each.facts for each in kernels],
            failures=failures,
        )
        json.write_text(found.model_dump_json(indent=1) + "\n")
    if failures or any(each.facts.error for each in kernels):
        raise typer.Exit(1)
