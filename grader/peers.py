"""Trusted side: what PyTorch takes for a benchmark, side by side, for comparison only.

`Peers` starts this module as a process of its own, which compiles while the checks of values run and then times when
asked, by CUDA events. No points depend on it: the baseline that counts is timed in turns with the submission.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from typing import Any, TextIO

import torch

import reference
from reference.exercise import DTYPES, Case

from .gpu_lock import held
from .peer_times import PeerTimes, Times

READY_TIMEOUT_S = 240.0
ANSWER_TIMEOUT_S = 60.0
DIFFERENT_INPUTS = 8
REPEATS = 5
REPEAT_MS = 10.0
_PROGRAM = (sys.executable, "-P", "-m", "grader.peers")


class Peers:
    """What all baselines of some cases take, `compile` (torch.compile of `eager`) among them.

    A process of its own compiles and times those that are not in `kept`; without any there is no process.
    """

    def __init__(self, cases: Sequence[Case], kept: PeerTimes | None = None) -> None:
        self._kept = kept
        wanted = list(cases) if kept is None else kept.missing(cases)
        self._clock = _ClockProcess(wanted) if wanted else None

    def wait(self) -> None:
        """Return once it leaves the device alone: it has compiled everything, or is ended for taking too long."""
        if self._clock is not None:
            self._clock.wait()

    def times_us(self, case: Case) -> Times:
        """Per baseline the median µs of a call, or why there is none; empty where the process has ended."""
        if self._kept is not None and (known := self._kept.of(case)) is not None:
            return known
        times = self._clock.times_us(case) if self._clock is not None else {}
        if self._kept is not None and times:
            self._kept.add(case, times)
        return times

    def close(self) -> None:
        """End the process."""
        if self._clock is not None:
            self._clock.close()


class _ClockProcess:
    """The judge's end of the process that compiles and times."""

    def __init__(self, cases: Sequence[Case]) -> None:
        # Private, as whoever writes into a compiler's cache decides what runs.
        self._folder = tempfile.TemporaryDirectory(prefix="kernel-grader-peers-")
        caches = dict.fromkeys(("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"), self._folder.name)
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and code
            _PROGRAM,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=os.environ | caches | {"TORCHINDUCTOR_COMPILE_THREADS": "1",
                                       "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )  # fmt: skip
        # It may take its time: the submission's kernels are compiled at the same time, with a limit.
        os.setpriority(os.PRIO_PROCESS, self._process.pid, 10)
        self._answers: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._ask([str(case) for case in cases])
        self._is_ready = False

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def _ask(self, question: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        except OSError:
            self.close()

    def wait(self) -> None:
        if not self._is_ready:
            self._is_ready = True
            self._answer(READY_TIMEOUT_S)

    def times_us(self, case: Case) -> Times:
        self.wait()
        if self._process.poll() is not None:
            return {}
        self._ask(str(case))
        answer = self._answer(ANSWER_TIMEOUT_S)
        return dict(json.loads(answer)) if answer else {}

    def _answer(self, timeout_s: float) -> str:
        try:
            answer = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            self.close()
            return ""
        if not answer:  # it has ended: nobody is to wait for the next answer either
            self._answers.put("")
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(1.0)
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):  # what it was still to be asked
                pipe.close()  # type: ignore[union-attr]
        self._folder.cleanup()


def _baselines(case: Case) -> dict[str, Callable[..., Any]]:
    baselines = dict(reference.load(case.exercise).baselines)
    return baselines | {"compile": torch.compile(baselines["eager"], dynamic=False)}


def _inputs(case: Case, generator: torch.Generator) -> list[Any]:
    exercise = reference.load(case.exercise)
    dtype = DTYPES[case.dtype]
    tensors = [torch.empty(spec.shape, dtype=dtype, device="cuda").normal_(generator=generator)
               for spec in case.tensors]  # fmt: skip
    return list(exercise.bind(case, tensors))


def _time_us(call: Callable[..., Any], inputs: list[list[Any]]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    calls, samples = len(inputs), []
    for repeat in range(REPEATS + 1):
        start.record()
        for number in range(calls):
            call(*inputs[number % len(inputs)])
        end.record()
        torch.cuda.synchronize()
        time_ms = float(start.elapsed_time(end)) / calls
        if repeat == 0:
            calls = max(calls, int(REPEAT_MS / max(1e-3, time_ms)))
        else:
            samples.append(1e3 * time_ms)
    return statistics.median(samples)


class _Clock:
    """Compiles and times, in the process that `Peers` starts. Whoever asks for times holds the GPU."""

    def __init__(self) -> None:
        self._generator = torch.Generator("cuda")
        self._generator.seed()
        self._baselines: dict[str, dict[str, Callable[..., Any] | str]] = {}

    def compile(self, text: str) -> dict[str, Callable[..., Any] | str]:
        """The baselines of a case, called once each, or what went wrong then."""
        if text not in self._baselines:
            case = Case.parse(text)
            self._baselines[text] = {name: self._tried(case, call) for name, call in _baselines(case).items()}
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        return self._baselines[text]

    def _tried(self, case: Case, call: Callable[..., Any]) -> Callable[..., Any] | str:
        try:
            call(*_inputs(case, self._generator))
        except Exception as error:  # noqa: BLE001 - no compiler, no memory: it is told, nothing depends on it
            return f"{type(error).__name__}: {error}"[:300]
        return call

    def times_us(self, text: str) -> dict[str, float | str]:
        """The answer to a question."""
        case = Case.parse(text)
        baselines = self.compile(text)
        inputs = [_inputs(case, self._generator) for _ in range(DIFFERENT_INPUTS)]
        times = {name: call if isinstance(call, str) else _time_us(call, inputs) for name, call in baselines.items()}
        del inputs
        torch.cuda.empty_cache()
        return times


def _serve() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a compiler's words on stdout are no answers
    clock = _Clock()
    _compile(clock, json.loads(sys.stdin.readline()))
    _tell(answers, "ready")
    for line in sys.stdin:
        _tell(answers, clock.times_us(json.loads(line)))


def _compile(clock: _Clock, cases: Sequence[str]) -> None:
    """Compile what all cases need, which runs it once: not while another grader times on this GPU."""
    from .device import current_uuid

    for text in cases:
        with held(current_uuid(), alone=False):
            clock.compile(text)


def _tell(answers: TextIO, value: Any) -> None:
    answers.write(json.dumps(value) + "\n")
    answers.flush()


if __name__ == "__main__":
    _serve()
