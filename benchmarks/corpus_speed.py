"""Times the right kernels of the corpus on the rubric's benchmarks, on a GPU: what plain student kernels reach.

The thresholds in rubric.yaml are set from what this prints: `python benchmarks/corpus_speed.py --json FILE`. A kernel
that is neither passed nor too slow is a false alarm; exit 1 where there is one. Hosts differ from minute to minute, so
`--times 3`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from grader.grading import Grading
from grader.machine import Machine
from grader.rubric import LoadedRubric, load_rubric
from grader.submission import Submission
from grader.verdict import Status

ROOT = Path(__file__).parent.parent
NUMBERS = ("speedup", "time_us", "baseline_us", "credit", "recorded_us", "notes_a_call")


def rounds(before: Callable[[], None], timed: Callable[[], None], after: Callable[[], None], number: int) -> None:
    """Run the rounds as pytest-benchmark would."""
    for _ in range(number):
        before()
        timed()
        after()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exercise", action="append", default=[])
    parser.add_argument("--times", type=int, default=1, help="how often each kernel is timed")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    loaded = load_rubric(ROOT / "rubric.yaml")
    machine = Machine(loaded.rubric.limits, "cuda")
    rows = []
    for exercise, policy in loaded.rubric.exercises.items():
        if options.exercise and exercise not in options.exercise:
            continue
        files = sorted((ROOT / "tests/submissions" / exercise).glob("right_*.py"))
        for path in [*files, ROOT / "reference/solutions" / f"{exercise}.py"] * options.times:
            own = policy.model_copy(update={"file": path.name, "entry": exercise})
            rubric = loaded.rubric.model_copy(update={"exercises": {exercise: own}})
            grading = Grading(LoadedRubric(rubric, loaded.path, loaded.sha256), Submission(path.parent), machine)
            for item in grading.items:
                if item.check == "speed":
                    verdict = grading.grade(item, rounds).verdict
                    row = {"exercise": exercise, "kernel": path.stem, "benchmark": str(item.benchmark)}
                    numbers = {name: verdict.evidence.get(name) for name in NUMBERS}
                    rows.append({**row, "status": str(verdict.status), "message": verdict.message, **numbers})
                    print(*row.values(), verdict.status, verdict.message[:110], *verdict.staff, sep="  ", flush=True)
            grading.close()
    device = machine.device
    machine.close()
    if options.json:
        environment = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "gpu": device.name,
            "driver": device.driver,
            **machine.values.versions,
            "copy_gb_s": device.copy_gb_s,
            "matmul_tflop_s": device.matmul_tflop_s,
        }
        options.json.write_text(json.dumps({"environment": environment, "rows": rows}, indent=1))
    alarms = sum(row["status"] not in (Status.PASSED, Status.TOO_SLOW) for row in rows)
    print(f"{len(rows)} timings, {alarms} false alarms")
    sys.exit(1 if alarms else 0)


if __name__ == "__main__":
    main()
