"""What Gradescope's `run_autograder` runs: grades a submission and keeps results.json up to date. Trusted side.

Gradescope kills what takes too long and shows nothing then. So results.json is there from the first second on and is
written anew whenever an item was judged; shortly before the time is over the judge is interrupted.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from .errors import GraderError
from .report import gradescope
from .report.view import make_view
from .result import load_result
from .rubric import load_rubric
from .whole import replacing

_POLL_S = 2.0
_GRACE_S = 15.0


def main() -> int:
    """Grade; 0 also where it was cut short, since results.json says so. `run_autograder` sets the variables."""
    return Run(Path(os.environ["AUTOGRADER_ROOT"]), float(os.environ["GRADER_BUDGET_S"])).go()


class Run:
    """One run in the folders of a container: `source`, `submission` and `results` below `root`."""

    def __init__(self, root: Path, budget_s: float) -> None:
        self.course = root / "source" / "course"
        self.results = root / "results" / "results.json"
        self.result = root / "results" / "grader" / "result.json"
        self.submission = root / "submission"
        self.seed = root / "source" / "seed"
        self.deadline = time.monotonic() + budget_s
        self._seen = 0
        self._killed = ""

    def go(self) -> int:
        """Grade, and leave a results.json whatever happens."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        self.result.parent.mkdir(parents=True, exist_ok=True)
        self._say("The grader was killed before it had judged anything. Submit again; if that stays so, tell staff.")
        judge = self._start()
        try:
            while judge.poll() is None and time.monotonic() < self.deadline and not self._killed:
                self._update("The grader is not done yet, or was killed: what is not measured was not reached.")
                time.sleep(_POLL_S)
            cut_short = judge.poll() is None
            if cut_short:
                self._stop(judge)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(judge.pid, signal.SIGKILL)
        self._seen = 0
        note = ""
        if cut_short:
            why = self._killed or "the time is over"
            note = f"The grader was stopped ({why}): what is not measured was not reached."
        elif judge.returncode not in (0, 1):
            note = f"The grader ended early (status {judge.returncode}): what is not measured was not reached."
        if self._update(note):
            return 0
        self._say(note or "The grader could not start. Tell the staff.")
        return 0 if cut_short else 1

    def _start(self) -> subprocess.Popen[bytes]:
        """The judge in a group of its own. The seed goes through a pipe: no other process can read it there."""
        command = [sys.executable, "-P", "-m", "pytest", "grader", "--submission", str(self.submission),
                   "--result", str(self.result), "--sandbox", os.environ.get("GRADER_SANDBOX", "auto")]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": str(self.course)}
        seed = int(self.seed.read_text()) if self.seed.is_file() else None
        read, self._write = os.pipe()
        os.write(self._write, json.dumps({"seed": seed}).encode() + b"\n")
        try:
            return subprocess.Popen(  # noqa: S603
                [*command, "--control", str(read)], cwd=self.course, env=environment, start_new_session=True,
                pass_fds=[read], stdin=subprocess.DEVNULL,
            )  # fmt: skip
        finally:
            os.close(read)

    def _stop(self, judge: subprocess.Popen[bytes]) -> None:
        """Interrupt it, so that it writes what it has."""
        judge.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            judge.wait(_GRACE_S)

    def _update(self, warning: str) -> bool:
        """Write results.json anew where the judge's result has changed; whether there is one."""
        try:
            changed = self.result.stat().st_mtime_ns
            if changed == self._seen:
                return True
            rubric = load_rubric(self.course / "rubric.yaml").rubric
            result = load_result(self.result)
        except (OSError, GraderError):
            return False
        if warning:
            result = result.model_copy(update={"warnings": [warning, *result.warnings]})
        self._replace(gradescope.render(make_view(result, rubric, staff=False, published=True,
                                                  folder=self.result.parent)))  # fmt: skip
        self._seen = changed
        return True

    def _say(self, text: str) -> None:
        """A results.json without any tests."""
        self._replace(json.dumps({"score": 0, "output": text, "output_format": "text"}) + "\n")

    def _replace(self, text: str) -> None:
        with replacing(self.results) as temporary:
            temporary.write_text(text, "utf-8")

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._killed = signal.Signals(number).name


if __name__ == "__main__":
    sys.exit(main())
