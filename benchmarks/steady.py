"""How often a kernel fails one case: for what failed once on a GPU and then no more.

    python benchmarks/steady.py CASE [--file reference/solutions/ID.py] [--times 1000] [--fresh]
    python benchmarks/steady.py CASE --device cuda [--gpus 0,1] [--processes 8] [--json FILE] [--outputs FOLDER]

CASE is what `--reproduce` takes. With --fresh each call has a worker of its own, and so is the first launch of
a process. A line for each failure, whose outputs go to FOLDER. Exit 1 where there is one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from environment import environment
from kernels import ROOT, Kernel, policy_for
from side_by_side import add_arguments, machine, side_by_side

import reference
from grader.judge import Caller, Target
from grader.machine import DeviceChoice
from grader.rubric import load_rubric
from grader.submission import Submission
from reference.exercise import Case

TIMEOUT_S = 60.0


def call(
    kernel: Kernel, text: str, times: int, device: DeviceChoice, folder: Path | None, *, fresh: bool
) -> dict[str, Any]:
    """So many calls on a case: how many were made, the seconds that took, and the number and message of what failed."""
    case = Case.parse(text)
    rubric = policy_for(load_rubric(ROOT / "rubric.yaml"), kernel).rubric
    file = rubric.file_of(kernel.exercise)
    target = Target(reference.load(kernel.exercise), Submission(kernel.path.parent).sources(file), file,
                    rubric.entry_of(kernel.exercise), tf32=rubric.tf32_of(kernel.exercise), case_timeout_s=TIMEOUT_S,
                    device=device)  # fmt: skip
    failed = []
    begun = time.monotonic()
    with Caller(machine(device).values, target) as caller:
        for number in range(times):
            observed = caller.observe(case, rubric.tolerance_for(case))
            if not observed.verdict.passed:
                failed.append({"call": number, "status": observed.verdict.status, "message": observed.verdict.message})
                print(f"call {number}: {observed.verdict.message}", flush=True)
                if folder is not None:
                    torch.save(observed.outputs, folder / f"{os.getpid()}-{number}.pt")
            if fresh:
                caller.drop_worker()
    return {"calls": times, "seconds": round(time.monotonic() - begun, 1), "failed": failed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case")
    parser.add_argument("--file", type=Path, help="the kernel (default: the exercise's solution)")
    parser.add_argument("--times", type=int, default=1000, help="calls in each process")
    parser.add_argument("--fresh", action="store_true", help="a worker of its own for each call")
    add_arguments(parser)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--outputs", type=Path)
    options = parser.parse_args()
    exercise = Case.parse(options.case).exercise
    kernel = Kernel(exercise, options.file or ROOT / f"reference/solutions/{exercise}.py")
    if not kernel.path.is_file():
        parser.error(f"--file {kernel.path}: there is no such file")
    if options.outputs:
        options.outputs.mkdir(parents=True, exist_ok=True)
    with side_by_side(options) as pool:
        asked = [
            pool.submit(call, kernel, options.case, options.times, options.device, options.outputs, fresh=options.fresh)
            for _ in range(options.processes)
        ]
        runs = [run.result() for run in asked]
    calls = sum(run["calls"] for run in runs)
    counts = Counter(str(one["status"]) for run in runs for one in run["failed"])
    print(f"{calls} calls, {sum(counts.values())} failed: {dict(counts)}")
    if options.json:
        asked_for = {name: str(value) for name, value in vars(options).items() if name != "json"}
        options.json.write_text(
            json.dumps({"environment": environment(), "asked": asked_for, "runs": runs}, indent=1) + "\n"
        )
    sys.exit(1 if counts else 0)


if __name__ == "__main__":
    main()
