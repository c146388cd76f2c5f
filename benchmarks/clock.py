"""How well the clock of the check `speed` repeats, and how near it is to CUDA events, on one GPU.

    python benchmarks/clock.py [--only softmax 8192x4096 …] [--repeats 10] [--lengths 20 60 120] [--budget 540]
                               [--json FILE]

For each benchmark of the rubric, with the staff solutions: (a) fresh duels, new processes each: the speedup of each,
(largest − smallest) / median, and the largest distance from the median; (b) the judge's time of a call over that by
CUDA events around as many calls, over as many fresh inputs, in another process, measured after each duel; (c) the same
with a round of 20, 60 and 120 calls.
`--only` takes what an item's name contains.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from benchmarks.environment import environment  # noqa: E402
from grader import timing  # noqa: E402
from grader.grading import Grading  # noqa: E402
from grader.items import Item  # noqa: E402
from grader.machine import Machine  # noqa: E402
from grader.rubric import load_rubric  # noqa: E402
from grader.submission import Submission  # noqa: E402
from grader.verdict import Verdict  # noqa: E402
from tests.exploits import in_a_loop  # noqa: E402

EVENT_ROUNDS = 15
LENGTH_ROUNDS = 3  # duels per round length


def events_us(exercise: str, shapes: Sequence[Sequence[int]], dtype: str, calls: int, rounds: int) -> float:
    """The median time of a call by CUDA events around a round of calls, each on an input of its own."""
    function = getattr(import_module(f"reference.solutions.{exercise}"), exercise)
    inputs = [
        [torch.empty(tuple(shape), dtype=getattr(torch, dtype), device="cuda") for shape in shapes]
        for _ in range(calls)
    ]
    times_us = []
    for _ in range(rounds):
        for arguments in inputs:
            for tensor in arguments:
                tensor.normal_()
        for _ in range(timing.WARM_UP_CALLS):
            function(*inputs[0])
        torch.cuda.synchronize()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        outputs = []
        start.record()
        for arguments in inputs:
            outputs.append(function(*arguments))  # noqa: PERF401 - as the worker does it
        end.record()
        torch.cuda.synchronize()
        times_us.append(start.elapsed_time(end) * 1e3 / calls)
        del outputs
    # The first rounds ask the driver for the outputs' memory.
    return median(times_us[2:])


class EventClock:
    """A process that times the staff solutions by CUDA events when asked."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve-events"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def time_us(self, item: Item, calls: int) -> float:
        assert item.benchmark is not None
        question = [item.exercise, item.benchmark.sizes, item.dtype, calls, EVENT_ROUNDS]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the process that times by events has ended")
        return float(json.loads(answer))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def serve_events() -> None:
    """Answer questions on stdin until it ends. Holds no device memory in between."""
    for question in sys.stdin:
        answer = events_us(*json.loads(question))
        torch.cuda.empty_cache()
        print(json.dumps(answer), flush=True)


def duel(item: Item, grading: Grading, calls: int | None = None) -> Verdict:
    """A fresh duel; `calls` fixes the calls of a round."""
    if calls is None:
        return grading.grade(item, in_a_loop).verdict
    with mock.patch.object(timing.Duel, "_calls_needed", lambda self, _: min(calls, self._pool.calls)):
        return grading.grade(item, in_a_loop).verdict


def facts(verdict: Verdict) -> dict[str, Any] | None:
    """The numbers of a duel, None where it gave none."""
    if "speedup" not in verdict.evidence:
        print(f"    {verdict.status}: {verdict.message[:300]} {verdict.evidence.get('traceback', '')[-500:]}")
        return None
    kept = ("speedup", "low", "high", "time_us", "baseline_us", "calls_a_round", "rounds", "percent_of_limit",
            "fetch_us", "baseline_fetch_us", "credit")  # fmt: skip
    return {name: verdict.evidence[name] for name in kept}


def spread(values: Sequence[float]) -> float:
    """(largest − smallest) / median."""
    return (max(values) - min(values)) / median(values)


def farthest(values: Sequence[float]) -> float:
    """The largest distance from the median, as a share of it."""
    middle = median(values)
    return max(abs(value / middle - 1) for value in values)


def study(item: Item, grading: Grading, clock: EventClock, repeats: int, lengths: Sequence[int]) -> dict[str, Any]:
    """Everything about one benchmark, printed as it is found."""
    begun = time.monotonic()
    duels = []
    for _ in range(repeats):
        if (found := facts(duel(item, grading))) is not None:
            found["events_us"] = clock.time_us(item, found["calls_a_round"])
            duels.append(found)
    row: dict[str, Any] = {"item": str(item), "duels": duels, "lengths": {}}
    if duels:
        speedups = [found["speedup"] for found in duels]
        ratios = [found["time_us"] / found["events_us"] for found in duels]
        row |= {"spread": spread(speedups), "farthest": farthest(speedups),
                "time_spread": spread([found["time_us"] for found in duels]),
                "judge_over_events": median(ratios)}  # fmt: skip
        print(f"{item}: speedups {' '.join(f'{value:.3f}' for value in speedups)}, spread {100 * row['spread']:.2f} %, "
              f"all within {100 * row['farthest']:.2f} % of their median")  # fmt: skip
        print(f"    {median(found['time_us'] for found in duels):.2f} µs, by events "
              f"{median(found['events_us'] for found in duels):.2f} µs, ratio {row['judge_over_events']:.4f} "
              f"({min(ratios):.4f}–{max(ratios):.4f}); spread of the time {100 * row['time_spread']:.2f} %, "
              f"{duels[0]['calls_a_round']} calls, {[found['rounds'] for found in duels]} rounds")  # fmt: skip
    for calls in lengths:
        found_at = [found for _ in range(LENGTH_ROUNDS) if (found := facts(duel(item, grading, calls))) is not None]
        if not found_at:
            continue
        by_events = clock.time_us(item, found_at[0]["calls_a_round"])
        row["lengths"][calls] = {"duels": found_at, "events_us": by_events}
        time_us = median(found["time_us"] for found in found_at)
        speedups = [found["speedup"] for found in found_at]
        print(f"    {found_at[0]['calls_a_round']:4} calls: {time_us:.2f} µs, over events {time_us / by_events:.4f}, "
              f"speedup {median(speedups):.3f}, spread {100 * spread(speedups):.2f} %")  # fmt: skip
    print(f"    {time.monotonic() - begun:.0f} s", flush=True)
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--lengths", nargs="*", type=int, default=[], help="calls a round for part (c)")
    parser.add_argument("--budget", type=float, default=540.0, help="seconds after which no benchmark is begun")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve-events", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve_events:
        serve_events()
        return 0
    loaded = load_rubric(ROOT / "rubric.yaml")
    begun = time.monotonic()
    machine = Machine(loaded.rubric.limits, "cuda")
    clock = EventClock()
    grading = Grading(loaded, Submission(ROOT / "reference/solutions"), machine)
    report: dict[str, Any] = environment() | {"benchmarks": []}
    try:
        print({key: value for key, value in report.items() if key != "benchmarks"}, flush=True)
        for item in grading.items:
            if item.check != "speed" or not any(text in str(item) for text in arguments.only):
                continue
            if time.monotonic() - begun > arguments.budget:
                print(f"the budget of {arguments.budget:g} s is spent before {item}")
                break
            report["benchmarks"].append(study(item, grading, clock, arguments.repeats, arguments.lengths))
            if arguments.json:
                arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    finally:
        clock.close()
        machine.close()
        grading.close()
    spreads = [row["spread"] for row in report["benchmarks"] if "spread" in row]
    if spreads:
        print(f"largest spread {100 * max(spreads):.2f} %, {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
