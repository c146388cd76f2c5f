"""Grades every right kernel with many seeds; whatever fails is a false alarm of the grader.

    python benchmarks/false_alarms.py [--only gelu …] [--seeds 20] [--first-seed 0] [--json FILE]
    python benchmarks/false_alarms.py --device cuda [--gpus 0,1] [--processes 8] …

Checks of values and gradients, every dtype. What FILE has already is not judged again, so a run can be broken off and
gone on with; a line for each alarm. Exit 1 where there is one.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any

from environment import report_in
from kernels import ROOT, Kernel, checks_of_values, policy_for, right_kernels
from side_by_side import add_arguments, machine, side_by_side

from grader.adequacy.power import kernel_exercises
from grader.assembler import ASSEMBLED_WRONG
from grader.grading import Grading, Selection
from grader.judge import NEVER_AGAIN
from grader.machine import DeviceChoice
from grader.rubric import load_rubric
from grader.submission import Submission

ACCIDENTS = (NEVER_AGAIN, ASSEMBLED_WRONG)


def grade(kernel: Kernel, seed: int, device: DeviceChoice, deadline: float) -> dict[str, Any] | None:
    """One kernel with one seed: how many cases, what failed, and what a GPU had wrong though the kernel was right.

    None where it is past the deadline, by the system's monotonic clock.
    """
    if time.monotonic() > deadline:
        return None
    loaded = policy_for(load_rubric(ROOT / "rubric.yaml"), kernel)
    grading = Grading(loaded, Submission(kernel.path.parent), machine(device), Selection(seed=seed))
    items = [item for item in grading.items if item.check in checks_of_values(kernel.exercise)]
    grading.start(items)
    cases, alarms, accidents = 0, [], []
    for item in items:
        verdict = grading.grade(item).verdict
        cases += verdict.evidence.get("cases", 0)
        if not verdict.passed:
            alarms.append({"item": str(item), "status": str(verdict.status), "message": verdict.message,
                           "hint": verdict.hint, "where": verdict.evidence.get("where", ""),
                           "reproduce": verdict.case})  # fmt: skip
        accidents += [f"{item} {name}: {verdict.staff[name]}" for name in ACCIDENTS if name in verdict.staff]
    grading.close()
    return {"cases": cases, "alarms": alarms, **({"accidents": accidents} if accidents else {})}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0, help="so that several processes share the seeds")
    add_arguments(parser)
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds after which no kernel is begun")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    report = report_in(options.json, {"runs": {}})
    runs = report["runs"]
    deadline = time.monotonic() + options.budget
    with side_by_side(options) as pool:
        asked = {}
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            for exercise in kernel_exercises(load_rubric(ROOT / "rubric.yaml"), options.only):
                for kernel in right_kernels(exercise):
                    key = f"{kernel} seed {seed} {options.device}"
                    if key not in runs:
                        asked[pool.submit(grade, kernel, seed, options.device, deadline)] = key
        for done in as_completed(asked):
            key, run = asked[done], done.result()
            if run is None:
                continue
            runs[key] = run
            for alarm in run["alarms"]:
                print(key, alarm["item"], alarm["message"], sep="  ", flush=True)
            if options.json:
                options.json.write_text(json.dumps(report, indent=1) + "\n")
    alarms = sum(len(run["alarms"]) for run in runs.values())
    print(f"{len(runs)} runs, {sum(run['cases'] for run in runs.values())} cases, {alarms} false alarms")
    sys.exit(1 if alarms else 0)


if __name__ == "__main__":
    main()
