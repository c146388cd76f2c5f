"""Stands in for `pytest grader` where a test needs many children fast: its options, a result made of files' hashes.

Standard library only. Exercises whose file has `# hang` never end; `# die` ends without a result;
`# thrice` has its one item three times; `# kill my grader once` first kills the process that started it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser()
for name in ("--submission", "--rubric", "--result", "--control", "--device"):
    parser.add_argument(name)
parser.add_argument("--exercise", action="append")
parser.add_argument("--log")
parser.add_argument("--seconds", type=float, default=0.0)
parser.add_argument("--gpu-name", default="cpu")
arguments, _ = parser.parse_known_args()

seed = json.loads(os.fdopen(int(arguments.control)).readline())["seed"]
folder = Path(arguments.submission)
files = {name: folder / f"{name}.py" for name in arguments.exercise}
texts = {name: file.read_text() if file.exists() else "" for name, file in files.items()}
if arguments.log:
    with Path(arguments.log).open("a") as log:
        gpu = f" {arguments.device}:{os.environ['CUDA_VISIBLE_DEVICES']}" if arguments.device == "cuda" else ""
        log.write(f"{folder.name} {' '.join(arguments.exercise)}{gpu}\n")
    for secret in ("cmdline", "environ"):
        Path(f"{arguments.log}.{secret}").write_bytes(Path(f"/proc/self/{secret}").read_bytes())
time.sleep(arguments.seconds)
if any("# hang" in text for text in texts.values()):
    time.sleep(600)
if any("# kill my grader once" in text for text in texts.values()) and arguments.log:
    killed = Path(f"{arguments.log}.killed")
    if not killed.exists():
        killed.touch()
        os.kill(os.getppid(), signal.SIGKILL)
if any("# die" in text for text in texts.values()):
    sys.exit("no result from me")


def item(text: str) -> dict[str, object]:
    points = int(hashlib.sha256(text.encode()).hexdigest(), 16) % 11 / 2 if text else 0.0
    status = "infrastructure_error" if "# fault" in text else "passed" if points else "wrong_values"
    speed = {"speedup": points + 1, "low": points, "high": points + 2, "floor": 1, "target": 6, "borderline": False,
             "time_us": 9.0, "gb_s": 1.0, "tflop_s": 1.0, "percent_of_limit": 1.0, "baselines_us": {},
             "baseline": "eager"}  # fmt: skip
    return {"check": "aligned", "dtype": "float32", "status": status, "points": points, "max_points": 5.0,
            "benchmark": "made-up", "gradable": True, "message": "made up",
            "evidence": speed if points else {}, "staff": {"source": ["odd"]} if "# odd" in text else {}}  # fmt: skip


exercises = {name: {"items": [item(text)] * (3 if "# thrice" in text else 1)} for name, text in texts.items()}
earned = sum(one["items"][0]["points"] for one in exercises.values())
result = {
    "schema": "grader.result/1",
    "submission": {"id": folder.name, "files": {}},
    "environment": {"device": arguments.gpu_name, "sandbox": "L0", "mode": "interpreter", "seed": seed,
                    "rubric_sha256": "", "grader": "0"},
    "exercises": exercises,
    "totals": {"earned": earned, "gradable": 5.0 * len(exercises), "maximum": 5.0 * len(exercises)},
    "started": "2026-01-01T00:00:00+00:00",
    "finished": "2026-01-01T00:00:01+00:00",
}  # fmt: skip
Path(arguments.result).write_text(json.dumps(result))
