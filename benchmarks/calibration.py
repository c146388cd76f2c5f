"""How much of the allowed error right kernels use, and how much more the mildest wrong precision takes.

    python benchmarks/calibration.py [--only gelu …] [--cases 150] [--budget SECONDS] [--json FILE]

For each exercise and dtype, over the listed cases of every check and `--cases` drawn ones a kernel: the largest
observed error / allowed error of the right kernels, which is to stay ≤ 0.5, and of kernels that sum in the inputs'
dtype: those of the corpus, and the solution with one such fault at a time. Each of these has to pass 1 in one dtype at
least: some round so few times that only bfloat16 shows it. Rows that FILE has are not measured again.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from environment import report_in
from kernels import ROOT, Kernel, checks_of_values, policy_for, right_kernels

import reference
from grader.adequacy.power import kernel_exercises, sorted_mutants
from grader.arena import logical_inputs, output_capacity, read_output
from grader.expected import expected_outputs
from grader.judge import Caller, Target, _bytes, _call_message
from grader.machine import Machine
from grader.reply import parse_reply
from grader.rubric import LoadedRubric, Rubric, load_rubric
from grader.search import Search
from grader.submission import Submission
from grader.verdict import Status, Verdict
from reference.exercise import DTYPES, Case
from tests.corpus import entries

WRONG_PRECISION = ("accumulator_dtype", "low_precision_sum")
PITFALL = "low_precision"


def used(caller: Caller, case: Case, rubric: Rubric) -> float | None:
    """The largest error of a call / the error allowed there; None where it gave no numbers."""
    exercise = caller.target.exercise
    worker = caller.worker()
    assert not isinstance(worker, Verdict), worker
    outputs = exercise.gradients(case) or exercise.outputs(case)
    sizes = [_bytes(output) for output in outputs]
    laid = worker.arena.lay(case, output_capacity(sizes))
    worker.post(_call_message(caller.target, case, laid, sizes, silenced=False))
    expected = expected_outputs(exercise, case, logical_inputs(case), rubric.tolerance_for(case))
    reply = worker.wait(caller.target.case_timeout_s)
    if not isinstance(reply, dict) or parse_reply(reply).error is not None:
        caller.drop_worker()
        return None
    most = 0.0
    for each, data in zip(expected, read_output(laid, worker.arena.read(laid), sizes), strict=True):
        values = torch.frombuffer(bytearray(data), dtype=DTYPES[each.output.dtype]).reshape(each.output.shape)
        share = (values.double() - each.values).abs() / each.allowed
        # Infinite where the oracle is too, or over the edge of the dtype's range: compare.py judges those.
        finite = share[torch.isfinite(share) & torch.isfinite(values)]
        most = max(most, float(finite.max()) if finite.numel() else 0.0)
    return most


def worst(kernel: Kernel, dtype: str, loaded: LoadedRubric, machine: Machine, checks: Sequence[str], drawn: int,
          until: float) -> tuple[float, str, int]:  # fmt: skip
    """The largest share that a kernel uses, the case, and how many cases were looked at."""
    policy = policy_for(loaded, kernel, generated=drawn // len(checks), budget_s=until)
    exercise = reference.load(kernel.exercise)
    target = Target(exercise, Submission(kernel.path.parent).sources(kernel.path.name), kernel.path.name,
                    kernel.exercise, tf32=loaded.rubric.tf32_of(kernel.exercise), case_timeout_s=60.0)  # fmt: skip
    most, where, cases = 0.0, "", 0

    def look(case: Case) -> Verdict:
        nonlocal most, where, cases
        share = used(caller, case, policy.rubric)
        cases += 1
        if share is not None and share > most:
            most, where = share, str(case)
        return Verdict(Status.PASSED)

    with Caller(machine.interpreter, target) as caller:
        for check in checks:
            Search(look, exercise, check, dtype, policy.rubric.cases, loaded.rubric.seed).run()
    return most, where, cases


def wrong_kernels(exercise: str, folder: Path) -> Iterator[tuple[str, Kernel]]:
    """The corpus's kernels that sum in the inputs' dtype, and the solution with one such fault at a time."""
    for entry in entries():
        if entry.exercise == exercise and PITFALL in entry.pitfalls:
            yield entry.name, Kernel(exercise, entry.folder / entry.file)
    for number, mutant in enumerate(sorted_mutants(ROOT, exercise).to_grade):
        if mutant.mutator in WRONG_PRECISION:
            path = folder / str(number) / f"{exercise}.py"
            path.parent.mkdir()
            path.write_text(mutant.source)
            yield f"line {mutant.line}, {mutant.function}, {mutant.mutator}", Kernel(exercise, path)


def calibrate(exercise: str, dtype: str, loaded: LoadedRubric, machine: Machine, drawn: int, until: float) -> Any:
    """One row of the table."""
    checks = checks_of_values(exercise)
    right = {str(k): worst(k, dtype, loaded, machine, checks, drawn, until) for k in right_kernels(exercise)}
    kernel = max(right, key=lambda name: right[name][0])
    row = {"exercise": exercise, "dtype": dtype, "right": right[kernel][0], "right_kernel": kernel,
           "right_case": right[kernel][1], "cases": sum(cases for _, _, cases in right.values())}  # fmt: skip
    if dtype == "float32":  # float32 is the inputs' dtype there
        return row
    with tempfile.TemporaryDirectory() as folder:
        row["wrong"] = {name: worst(k, dtype, loaded, machine, checks, drawn // 4, until)[:2]
                        for name, k in wrong_kernels(exercise, Path(folder))}  # fmt: skip
    return row


def unseen_faults(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The wrong kernels whose errors are allowed in every dtype."""
    most: dict[str, float] = {}
    for row in rows:
        for name, (share, _) in row.get("wrong", {}).items():
            fault = f"{row['exercise']} {name}"
            most[fault] = max(share, most.get(fault, 0.0))
    return [fault for fault, share in most.items() if share <= 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--cases", type=int, default=150, help="drawn cases a kernel and dtype")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for the drawn cases of one check")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    loaded = load_rubric(ROOT / "rubric.yaml")
    machine = Machine(loaded.rubric.limits, "cpu")
    report = report_in(options.json, {"rows": []})
    rows = report["rows"]
    print(f"{'exercise':16} {'dtype':9} {'cases':>6} {'right':>6}  kernel and case; then the wrong ones")
    try:
        for exercise in kernel_exercises(loaded, options.only):
            for dtype in loaded.rubric.dtypes_of(exercise):
                if any((row["exercise"], row["dtype"]) == (exercise, dtype) for row in rows):
                    continue
                began = time.monotonic()
                row = calibrate(exercise, dtype, loaded, machine, options.cases, options.budget)
                rows.append({**row, "seconds": round(time.monotonic() - began)})
                wrong = ", ".join(f"{name} {share:.2f}" for name, (share, _) in row.get("wrong", {}).items())
                print(f"{exercise:16} {dtype:9} {row['cases']:6} {row['right']:6.2f}  {row['right_kernel']} "
                      f"{row['right_case']}; {wrong}", flush=True)  # fmt: skip
                if options.json:
                    options.json.write_text(json.dumps(report, indent=1) + "\n")
    finally:
        machine.close()
    unseen = unseen_faults(rows)
    print(f"largest share of a right kernel: {max(row['right'] for row in rows):.3f}")
    print(f"wrong sums that no dtype shows: {', '.join(unseen) or 'none'}")
    sys.exit(1 if unseen else 0)


if __name__ == "__main__":
    main()
