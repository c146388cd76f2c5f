"""Results to make reports of: one with an item of every kind, one hostile, and a class."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from grader.report.class_page import ClassRow
from grader.report.view import View, make_view
from grader.result import Environment, ExerciseResult, ItemResult, Result, SubmissionFacts, TotalsResult
from grader.rubric import Rubric
from grader.verdict import Status

HIDDEN_SEED = 987654321
NEIGHBOUR = "Neighbour Nell"
PICTURE = "map.svg"
SPEED = {
    "credit": 0.62, "borderline": False, "speedup": 3.1, "low": 3.05, "high": 3.16, "floor": 1.5, "target": 4.5,
    "baseline": "eager", "time_us": 115.4, "baseline_us": 358.0, "least_us": 56.0,
    "baselines_us": {"eager": 358.0, "builtin": 99.0}, "gb_s": 2326.0, "tflop_s": 1.45, "percent_of_limit": 48.5,
    "rounds": 24, "device": [{"processes": [NEIGHBOUR]}], "fetch_us": 101.0,
}  # fmt: skip


def rubric(**report: Any) -> Rubric:
    return Rubric.model_validate({
        "schema": "grader.rubric/1", "title": "Triton kernels", "seed": 7, "report": report,
        "weights": {"aligned": 1, "ragged": 1, "extreme": 1, "compiles": 1, "speed": 1},
        "exercises": {"softmax": {"points": 10}},
    })  # fmt: skip


def item(check: str, status: str, points: float = 0.0, **fields: Any) -> ItemResult:
    gradable = status not in ("not_measured", "infrastructure_error")
    given = {"dtype": "float32", "max_points": 2.0, "gradable": gradable, "seconds": 0.25, **fields}
    return ItemResult(check=check, status=Status(status), points=points, **given)


def result(name: str, exercises: dict[str, list[ItemResult]], seed: int = 7, warnings: tuple[str, ...] = ()) -> Result:
    items = [item for found in exercises.values() for item in found]
    return Result(
        submission=SubmissionFacts(id=name, files=dict.fromkeys(exercises, "0" * 64)),
        environment=Environment(device="NVIDIA H200", driver="580.1", torch="2.11.0", triton="3.6.0", python="3.12.3",
                                sandbox="L3", mode="gpu", seed=seed, rubric_sha256="ab" * 32, grader="0.1.0"),
        exercises={exercise: ExerciseResult(items=found) for exercise, found in exercises.items()},
        totals=TotalsResult(
            earned=sum(i.points for i in items), gradable=sum(i.max_points for i in items if i.gradable),
            maximum=sum(i.max_points for i in items),
        ),
        warnings=list(warnings),
        started="2026-04-20T10:00:00+00:00", finished="2026-04-20T10:01:30+00:00",
    )  # fmt: skip


def every_kind(seed: int = 7) -> Result:
    """Passed, wrong with picture and pitfall, refused by the compiler, a fault of the grader, timed, not measured."""
    error = {"type": "ValueError", "bases": ["ValueError"], "message": "bad grid", "frames": [
        {"file": "softmax.py", "line": 31, "code": "kernel[grid](x)"}]}  # fmt: skip
    case = "softmax/ragged/float16/x:3x7:normal:contiguous/2"
    kernel = {"kernel": "softmax_kernel", "target": 80, "config": None, "shared_bytes": 16, "num_warps": 4,
              "registers": 25, "spills": 0}  # fmt: skip
    softmax = [
        item("aligned", "passed", 2.0, evidence={"cases": 12, "attempt": 1}),
        item("ragged", "wrong_values", dtype="float16", case=case, pitfall="wrong-fill-value", pictures=[PICTURE],
             message="out[0, 0] = 0.161133, expected 0.17276 (allowed 0.00017); 21 of 21 elements are wrong — "
                     "softmax float16[3, 7], seed 2",
             hint="Padded columns count as 0 instead of −∞: each adds exp(0) to the sum.",
             reproduce=f"pytest grader --submission /srv/staff/batch --reproduce {case}",
             evidence={"first_wrong": {"output": "out", "index": [0, 0], "seen": "0.161133", "expected": 0.17276,
                                       "allowed": 0.00017}, "wrong": 21, "total": 21, "where": "every element"},
             staff={"similar_to": NEIGHBOUR}),
        item("extreme", "raised", message="softmax.py:31: ValueError: bad grid — in `kernel[grid](x)`",
             evidence={"error": error}),
        item("compiles", "passed", 2.0, evidence={"kernels": [kernel, {**kernel, "target": 90, "registers": 31}]}),
        item("speed", "passed", 1.24, benchmark="8192x4096.float32", message="115.4 µs, 3.10 × eager (3.05–3.16)",
             evidence=SPEED),
        item("speed", "passed", 0.5, benchmark="4096x32768.float32", message="400.0 µs, 2.00 × eager (1.98–2.02)",
             evidence={**SPEED, "speedup": 2.0, "low": 1.98, "high": 2.02, "time_us": 400.0, "baseline_us": 800.0,
                       "least_us": 224.0, "gb_s": 2684.0, "borderline": True}),
    ]  # fmt: skip
    gelu = [
        item("aligned", "infrastructure_error", message="the grader failed: OSError: /srv/staff/secret",
             evidence={"traceback": "Traceback in /srv/staff/secret"}),
        item("speed", "not_measured", benchmark="8192x8192.bfloat16", dtype="bfloat16",
             message="speed is measured on a GPU only"),
    ]  # fmt: skip
    return result("ada", {"softmax": softmax, "gelu": gelu}, seed, ("sandbox: none on this machine",))


NASTY = (
    "<script>alert(1)</script><img src=x onerror=alert(1)>\x1b[31mred\x1b[0m\x1b]0;title\x07\x00\x07\r\n"
    "::set-output name=x::y\n::error::owned\n::stop-commands::x\n```\n</pre>]]>&amp;{{ 7*7 }} | @all \u202egnp.exe "
    "\udcff\n=cmd|' /C calc'!A0"
)


def hostile() -> Result:
    """Whatever a submission can bring into a result, in every text of it, with 10 MB in one."""
    frame = {"file": NASTY, "line": 3, "code": NASTY}
    fields = {"message": NASTY, "hint": NASTY, "case": NASTY, "reproduce": NASTY, "pitfall": NASTY,
              "evidence": {"printed": NASTY + "x" * 10_000_000, "error": {"type": NASTY, "message": NASTY, "bases": [],
                           "frames": [frame]}, "kernels": [{"kernel": NASTY, "target": 80, "config": NASTY,
                           "shared_bytes": 0, "num_warps": 4, "registers": 1, "spills": 0}],
                           NASTY: NASTY}}  # fmt: skip
    items = [item("ragged", "crashed", dtype=dtype, **fields) for dtype in ("float32", "float16", "bfloat16")]
    return result(NASTY, {"softmax": items}, warnings=(NASTY,))


def view(
    found: Result, *, staff: bool = False, published: bool = False, folder: Path | None = None, **report: Any
) -> View:
    return make_view(found, rubric(**report), staff=staff, published=published, folder=folder)


def a_class(size: int, seed: int = 1) -> list[ClassRow]:
    """Students with names, drawn outcomes, and one of each thing that staff look for."""
    draw = random.Random(seed)
    rows = []
    exercises = ("gelu", "softmax", "row_sum", "matmul_relu", "rmsnorm", "flash_attention")
    for number in range(size):
        of_student = {}
        skill = draw.random()
        for exercise in exercises:
            items = []
            for check in ("aligned", "ragged", "strided", "extreme", "compiles", "fused"):
                good = draw.random() < 0.3 + 0.7 * skill
                items += [item(check, "passed" if good else "wrong_values", 2.0 if good else 0.0, dtype=dtype,
                               message="" if good else "out[0] = 1, expected 2")
                          for dtype in ("float32", "float16", "bfloat16")]  # fmt: skip
            speedup = 1 + 6 * skill * draw.random()
            measured = {**SPEED, "speedup": speedup, "borderline": abs(speedup - 1.5) < 0.02}
            status = "passed" if speedup > 1.5 else "too_slow"
            items.append(item("speed", status, benchmark="8192x4096.float32", evidence=measured))
            of_student[exercise] = items
        if number == 3:
            of_student["gelu"][0] = item("aligned", "infrastructure_error", message="the GPU was lost")
        if number == 6:
            of_student["gelu"][0].staff["odd_source"] = ["line 3"]
        if number == 4:
            of_student["gelu"][-1] = item(
                "speed", "forbidden", benchmark="8192x4096.float32", message="work was put off"
            )
        rows.append(ClassRow(f"s{number:04}", result(f"s{number:04}", of_student), name=f"Student Number {number}",
                             page=f"students/s{number:04}.html", late=number % 17 == 0,
                             flags=("similar to s0001",) if number == 5 else ()))  # fmt: skip
    rows.append(ClassRow("s9999", None, name="Absent Abby", note="the archive holds a link"))
    return rows
