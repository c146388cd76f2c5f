"""What each sandbox level costs: to find out whether it is there, to start a zygote in it, and to start a worker.

    python benchmarks/sandbox.py [--repeats 20] [--runs 8] [--json FILE]

`trial` finds out whether the level is there, once a run. `enter` starts an interpreter that enters it and ends: what it
takes beyond `enter` of L0, the zygote takes beyond its imports. `worker` is from the request to fork until the
submission's file is loaded. `beyond_L0_s` is what a whole `pytest grader` of one submission takes more than without a
sandbox: the median over pairs of runs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.environment import environment  # noqa: E402
from grader.home import Home  # noqa: E402
from grader.loading import load_message  # noqa: E402
from grader.rubric import Limits  # noqa: E402
from grader.sandbox import LEVELS, Sandbox, attempt  # noqa: E402
from grader.zygote import Zygote  # noqa: E402


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def of_children(work: Callable[[], object], repeats: int) -> dict[str, float]:
    """Milliseconds of something that starts processes: the median, the least, and the least time of processors."""
    clock, processors = [], []
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        clock.append(1e3 * seconds(work))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        processors.append(1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    return {"median": statistics.median(clock), "least": min(clock), "least_cpu": min(processors)}


def enter(sandbox: Sandbox, home: Home) -> None:
    """Start an interpreter that enters a level as the zygote does, and ends."""
    line = home.command("confine", json.dumps(sandbox.settings(home, gpu=False)))
    code = line.index("-c") + 1
    line[code] = line[code].replace("confine.main()", "import json; confine.enter(json.loads(sys.argv[1]))")
    command = sandbox.command(line, home, gpu=False)
    subprocess.run(command, check=True, capture_output=True, env={"PATH": os.environ["PATH"]})


def worker(zygote: Zygote) -> tuple[float, float]:
    """Seconds until a worker has loaded a file, and until it is gone again."""

    def load() -> None:
        started.append(zygote.fork())
        (started[0].folder / "gelu.py").write_text("def gelu(x): return x\n")
        reply = started[0].request(load_message(started[0], "gelu.py", "gelu"), 20)
        assert isinstance(reply, dict), reply
        assert reply["kind"] == "loaded", reply

    started: list[Any] = []
    return seconds(load), seconds(lambda: started[0].close())


def measure(sandbox: Sandbox, repeats: int) -> dict[str, Any]:
    """The figures of one level, in milliseconds but for the zygote's."""
    with contextlib.closing(Home()) as home:
        entered = of_children(lambda: enter(sandbox, home), repeats)
    zygote = Zygote(Limits(), sandbox=sandbox)
    with contextlib.closing(zygote):
        ready_s = seconds(zygote.ready)
        workers = [worker(zygote) for _ in range(repeats + 1)][1:]
    return {
        "trial_ms": of_children(lambda: attempt(sandbox.level), repeats),
        "enter_ms": entered,
        "zygote_ready_s": ready_s,
        "worker_ms": {"median": 1e3 * statistics.median(start for start, _ in workers),
                      "most": 1e3 * max(start for start, _ in workers)},
        "worker_end_ms": 1e3 * statistics.median(end for _, end in workers),
    }  # fmt: skip


def graded(level: str) -> None:
    """Grade one solution in a level."""
    command = [sys.executable, "-P", "-m", "pytest", "grader", "-q", "--submission", "reference/solutions",
               "--exercise", "row_sum", "--device", "cpu", "--sandbox", level, "--result", os.devnull]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)


def beyond_none(level: str, runs: int) -> dict[str, float]:
    """Seconds of whole runs: without a sandbox, and what the level takes more."""
    pairs = []
    for number in range(runs):
        order = ("L0", level) if number % 2 else (level, "L0")
        times = {each: seconds(partial(graded, each)) for each in order}
        pairs.append((times["L0"], times[level]))
    return {
        "run_L0_s": statistics.median(none for none, _ in pairs),
        "beyond_L0_s": statistics.median(inside - none for none, inside in pairs),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--runs", type=int, default=8, help="pairs of whole runs")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    report: dict[str, Any] = environment() | {"cores": os.cpu_count(), "load": os.getloadavg()[0], "levels": {}}
    for level in LEVELS:
        trial = attempt(level)
        if trial.missing:
            print(f"{level}: {trial.missing}")
            continue
        report["levels"][level] = found = measure(trial.sandbox, arguments.repeats)
        if level != "L0" and arguments.runs:
            found |= beyond_none(level, arguments.runs)
        print(level, json.dumps(found), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
