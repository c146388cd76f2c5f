"""The command `grader profile`."""

from __future__ import annotations

import importlib.util
import json as json_format
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console

import reference

from . import hardware, profiler
from . import sweep as sweeping
from .cli_input import WIDTH, errors_end_the_command, known_exercises
from .judging import default_root
from .players import STUDENT
from .profiling import Tool, no_gpu
from .report.profile import show_kernels, show_roofline, show_sweep
from .rubric import load_rubric
from .submission import Submission
from .whole import check_folder_of


def profile(
    exercise: Annotated[str, typer.Argument(help="the exercise's id")],
    submission: Annotated[Path | None, typer.Option(help="the folder with the exercise files")] = None,
    tool: Annotated[Tool, typer.Option(help="what profiles")] = Tool.TORCH,
    benchmark: Annotated[str | None, typer.Option(help="the name of a benchmark of the rubric")] = None,
    of: Annotated[str, typer.Option(help="student, or the name of a baseline")] = STUDENT,
    sweep: Annotated[bool, typer.Option("--sweep", help="time sizes from 256 to 8192, beside the baselines")] = False,
    out: Annotated[Path, typer.Option(help="the folder for what is written")] = Path(),
    json: Annotated[Path | None, typer.Option(help="also write what was found to this file")] = None,
    rubric: Annotated[Path | None, typer.Option(help="the policy to take benchmarks from")] = None,
) -> None:
    """Say where the time of a call goes. Needs a GPU."""
    with errors_end_the_command():
        loaded = load_rubric(rubric or default_root() / "rubric.yaml")
        known_exercises(loaded.rubric, [exercise])
        folder = Submission(submission or default_root() / "student")
        of_exercise = reference.load(exercise)
        case = profiler.chosen_case(loaded.rubric, exercise, benchmark)
        player = profiler.chosen_player(of_exercise, of)
        check_folder_of(out / exercise, "--out")
        check_folder_of(json, "--json")
        gpu_name, gpu = _this_gpu(exercise)
        run = profiler.Profiler(loaded.rubric, folder, of_exercise, case, gpu, player)
        if tool is not Tool.TORCH:
            text = run.external(tool, out)
            _write(json, {"gpu": gpu_name, "tool": tool, "case": str(case), "text": text.splitlines()})
            return
        console = Console(highlight=False, width=WIDTH)
        if sweep:
            points = run.sweep()
            console.print(f"{exercise} {case.dtype} on {gpu_name}: time of a call, of the GPU's limit")
            show_sweep(console, points)
            sweeping.write_csv(out / f"{exercise}-sweep.csv", points)
            written = [f"{exercise}-sweep.csv"]
            if importlib.util.find_spec("matplotlib") is None:
                console.print("no picture: matplotlib is missing; pip install 'kernel-grader[plot]'")
            else:
                sweeping.write_plot(out / f"{exercise}-sweep.png", f"{exercise} {case.dtype} on {gpu_name}", points)
                written.append(f"{exercise}-sweep.png")
            console.print(f"written to {out.resolve()}: {', '.join(written)}")
            _write(json, {"gpu": gpu_name, "case": str(case), "points": [asdict(point) for point in points]})
            return
        kernels, reached = run.kernels()
        console.print(f"{case.describe()}, {player}, on {gpu_name}")
        show_kernels(console, kernels)
        show_roofline(console, gpu_name, reached)
        _write(json, {"gpu": gpu_name, "case": str(case), "of": player, "roofline": asdict(reached),
                      "kernels": [kernel.model_dump() for kernel in kernels]})  # fmt: skip


def _write(path: Path | None, found: dict[str, object]) -> None:
    if path is not None:
        path.write_text(json_format.dumps(found, indent=1, ensure_ascii=False) + "\n")


def _this_gpu(exercise: str) -> tuple[str, hardware.Gpu]:
    """The GPU's name and limits. Raises SelectionError where there is none."""
    if not torch.cuda.is_available():
        raise no_gpu(exercise)
    name = str(torch.cuda.get_device_name(0))
    known = hardware.lookup(name)
    if known is None:  # measured, then
        from .device import Device

        known = Device.current().limits
    return name, known
