"""Rates, resuming and memory of `grader batch` on a class made of the corpus.

python benchmarks/batch.py rate --submissions 200 --jobs 1 2
python benchmarks/batch.py rate --submissions 40 --gpus 0,1 --jobs 2 4 --exercises gelu softmax
python benchmarks/batch.py kills --submissions 200 --kills 50 [--child tests/batch_child.py]
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from environment import environment

ROOT = Path(__file__).parent.parent
CORPUS = ROOT / "tests/submissions"

RUBRIC = """\
schema: grader.rubric/1
title: Benchmark
seed: 1
weights: {{aligned: 2, ragged: 3{speed}}}
dtypes: [float32]
cases: {{generated: 4, budget_s: 20, case_timeout_s: 5, shrink_s: 1}}
exercises:
{exercises}
"""
SPEED = "[{sizes: [[8192, 8192]], dtype: bfloat16, baseline: eager, floor: 2, target: 9}]"
TIMED = {"gelu": SPEED, "softmax": SPEED, "row_sum": SPEED}


def make_class(folder: Path, count: int, exercises: list[str]) -> None:
    """Submissions that combine files of the corpus, the same ones each time."""
    choose = random.Random(0)
    for number in range(count):
        (folder / f"s{number:03}").mkdir(parents=True)
        for exercise in exercises:
            source = choose.choice(sorted((CORPUS / exercise).glob("*.py")))
            text = source.read_text() + f"\n# {number}\n"
            (folder / f"s{number:03}/{exercise}.py").write_text(text)


def command(work: Path, out: str, arguments: argparse.Namespace, jobs: int) -> list[str]:
    """A `grader batch`, or the same with a fast child in place of `pytest grader`."""
    if arguments.child is None:
        gpus = ",".join(arguments.gpus.split(",")[:jobs])  # one slot has one of them
        return [sys.executable, "-P", "-m", "grader.cli", "batch", str(work / "class"), "--out", str(work / out),
                "--rubric", str(work / "rubric.yaml"), "--gpus", gpus, "--jobs", str(jobs),
                "--unsafe"]  # fmt: skip
    program = (
        "import sys; from pathlib import Path; from rich.console import Console\n"
        "from grader.batch.run import Options, grade_class\n"
        f"options = Options(Path({str(work / 'class')!r}), Path({str(work / out)!r}), Path({str(ROOT)!r}), "
        f"Path({str(work / 'rubric.yaml')!r}), gpus='none', jobs={jobs}, unsafe=True, "
        f"program=(sys.executable, {str(arguments.child.resolve())!r}, '--seconds', '0.1'))\n"
        "sys.exit(grade_class(options, Console()))"
    )
    return [sys.executable, "-P", "-c", program]


def start(words: list[str], log: Path, cores: Sequence[int] = ()) -> subprocess.Popen[bytes]:
    """Start a program, on these cores alone where there are any."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    program = ["taskset", "--cpu-list", ",".join(map(str, cores)), *words] if cores else words
    with log.open("ab") as sink:
        return subprocess.Popen(program, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, stdout=sink, stderr=sink)


def timed(words: list[str], log: Path, cores: Sequence[int] = ()) -> tuple[float, list[int]]:
    """Seconds, and the coordinator's memory in MiB, sampled over the run."""
    begun = time.monotonic()
    process = start(words, log, cores)
    memory = []
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
            memory += [int(line.split()[1]) >> 10 for line in status.splitlines() if line.startswith("VmRSS")]
        except OSError:
            break
        time.sleep(0.5)
    if process.wait() != 0:
        raise SystemExit(f"grader batch failed, see {log}:\n{log.read_text()[-2000:]}")
    return time.monotonic() - begun, memory


def rate(work: Path, arguments: argparse.Namespace) -> dict[str, object]:
    """Submissions a minute for each number of slots, the time of a second run, the coordinator's memory.

    A slot has the same share of the cores each time: one slot of two that had both would be no serial rate. Before
    that one submission is graded unmeasured, as a machine's first reads PyTorch from its disk.
    """
    timed([*command(work, "unmeasured", arguments, 1), "--only", "s000"], work / "log")
    runs = []
    cores = sorted(os.sched_getaffinity(0))
    for jobs in arguments.jobs:
        words = command(work, f"out-{jobs}", arguments, jobs)
        share = cores[: max(1, len(cores) * jobs // max(arguments.jobs))]
        seconds, memory = timed(words, work / f"log-{jobs}", share)
        again, _ = timed(words, work / f"log-{jobs}")
        quarter = max(1, len(memory) // 4)
        run = {
            "slots": jobs,
            "cores": len(share),
            "seconds": round(seconds, 1),
            "per_minute": round(60 * arguments.submissions / seconds, 2),
            "second_run_s": round(again, 2),
            "memory_mib": {
                "after a quarter": memory[quarter],
                "after three quarters": memory[3 * quarter],
                "most, with the reports at the end": max(memory),
            },
        }
        runs.append(run)
        print(run, flush=True)
    for run in runs[1:]:
        linear = run["per_minute"] / runs[0]["per_minute"] / (run["slots"] / runs[0]["slots"])
        run["of_linear"] = round(linear, 3)
        print(f"{run['slots']} slots: {linear:.2f} of {run['slots'] / runs[0]['slots']:g} × the rate of the first")
    first, *others = [graded(work / f"out-{jobs}/results") for jobs in arguments.jobs]
    pairs = [(item, first[item], other[item]) for other in others for item in first]
    facts = {
        "equal_statuses": all(one["status"] == other["status"] for _, one, other in pairs),
        "equal_points_but_for_speed": all(one["points"] == other["points"] for item, one, other in pairs
                                          if "speed" not in item),
        "points_for_speed_apart": max((abs(one["points"] - other["points"]) for item, one, other in pairs
                                       if "speed" in item), default=0.0),
    }  # fmt: skip
    print(facts)
    return {"runs": runs, **facts}


def graded(results: Path) -> dict[tuple[str, ...], dict[str, object]]:
    """Each item of each submission, by submission, exercise, check, dtype and benchmark."""
    return {
        (file.stem, exercise, item["check"], item["dtype"], item["benchmark"]): item
        for file in sorted(results.glob("*.json"))
        for exercise, of_exercise in json.loads(file.read_text("utf-8"))["exercises"].items()
        for item in of_exercise["items"]
    }


def kills(work: Path, arguments: argparse.Namespace) -> dict[str, object]:
    """Kill the coordinator with -9 at random moments, resume, and compare with an undisturbed run."""
    jobs = arguments.jobs[0]
    undisturbed_s, _ = timed(command(work, "undisturbed", arguments, jobs), work / "log")
    start_s, _ = timed(command(work, "undisturbed", arguments, jobs), work / "log")  # nothing is left to grade
    choose = random.Random(1)
    done = 0
    for number in range(arguments.kills):
        log = work / f"log-{number}"
        process = start(command(work, "killed", arguments, jobs), log)
        if choose.random() < 0.8:  # while it grades; the others hit its start
            while process.poll() is None and b"to grade" not in log.read_bytes():
                time.sleep(0.02)
            time.sleep(choose.uniform(0, 1.5 * undisturbed_s / arguments.kills))  # so that the last finds work as well
        else:
            time.sleep(choose.uniform(0, start_s))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            done += 1
        process.wait()
    with sqlite3.connect(work / "killed/ledger.sqlite") as ledger:
        before = ledger.execute("SELECT count(*) FROM grades").fetchone()[0]
    timed(command(work, "killed", arguments, jobs), work / "log")
    with sqlite3.connect(work / "killed/ledger.sqlite") as ledger:
        rows = ledger.execute("SELECT submission, exercise, key FROM grades").fetchall()
    books = [list(csv.DictReader((work / out / "gradebook.csv").open())) for out in ("undisturbed", "killed")]
    facts = {
        "kills": done,
        "graded_before_the_last_run": before,
        "grades": len(rows),
        "graded_exactly_once": len(set(rows)) == len(rows) == arguments.submissions * len(arguments.exercises),
        "book_equals_undisturbed": books[0] == books[1],
    }
    print(facts)
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("rate", "kills"))
    parser.add_argument("--submissions", type=int, default=200)
    parser.add_argument("--exercises", nargs="+", default=["gelu"])
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--gpus", default="none")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--child", type=Path, help="a fast child in place of pytest grader")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="grader-benchmark-"))
    try:
        make_class(work / "class", arguments.submissions, arguments.exercises)
        blocks = [
            f"  {name}: {{points: 10{'' if arguments.gpus == 'none' else ', speed: ' + TIMED[name]}}}"
            for name in arguments.exercises
        ]
        (work / "rubric.yaml").write_text(
            RUBRIC.format(exercises="\n".join(blocks), speed="" if arguments.gpus == "none" else ", speed: 4")
        )
        facts = {"rate": rate, "kills": kills}[arguments.what](work, arguments)
    finally:
        shutil.rmtree(work)
    asked = {name: str(value) for name, value in vars(arguments).items() if name != "json"}
    most_mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    record = {"environment": environment(), "asked": asked, "largest_process_mib": most_mib, **facts}
    if arguments.json:
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
