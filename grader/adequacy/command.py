"""The command `grader adequacy`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ..errors import GraderError
from ..judging import default_root
from ..machine import Machine
from ..rubric import load_rubric
from .examine import Cache, Finding
from .mutants import Mutant
from .power import Plan, measure
from .report import as_json, good_enough, show


def adequacy(
    exercises: Annotated[list[str] | None, typer.Argument(metavar="[ID]…", help="exercises; all if none")] = None,
    rubric: Annotated[Path | None, typer.Option(help="the policy whose checks are tried")] = None,
    every: Annotated[bool, typer.Option("--all", help="every mutant, not a spread of them")] = False,
    equivalent: Annotated[bool, typer.Option("--equivalent", help="grade the marked mutants too")] = False,
    output: Annotated[Path | None, typer.Option("--json", help="write the findings to this file")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="mutants graded at a time")] = os.cpu_count() or 1,
    cache: Annotated[Path | None, typer.Option(help="where findings are kept; build/adequacy if not given")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="use no findings of earlier runs")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="a line for each mutant")] = False,
) -> None:
    """Put faults into each solution and count how many the rubric's checks catch, on a CPU."""
    console = Console(highlight=False)

    def progress(mutant: Mutant, finding: Finding) -> None:
        if verbose:
            said = f"{finding.check} {finding.dtype}: {finding.status}" if finding.caught else "NOT CAUGHT"
            console.print(f"{mutant} {finding.cases} {finding.seconds} s {said}", markup=False)

    try:
        root = default_root()
        loaded = load_rubric(rubric or root / "rubric.yaml")
        policy = loaded.rubric.adequacy
        plan = Plan(exercises or (), None if every else policy.mutants, equivalent, jobs)
        kept = None if fresh else Cache(cache or root / "build" / "adequacy", root, loaded)
        machine = Machine(loaded.rubric.limits, "cpu")
        try:
            powers = measure(root, loaded, machine, plan, kept, progress)
        finally:
            machine.close()
        if output is not None:
            output.write_text(json.dumps(as_json(powers, policy.share), indent=1) + "\n")
    except (GraderError, OSError) as error:
        console.print(f"error: {error}", markup=False)
        raise typer.Exit(2) from None
    show(console, powers, policy.share)
    if not good_enough(powers, policy.share):
        raise typer.Exit(1)
