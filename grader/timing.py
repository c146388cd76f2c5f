"""Trusted side: times a baseline and a submission against each other on a GPU, by the judge's own clock.

A round is one message "run these calls" to a worker. The clock starts when it is sent and stops when the answer has
come; the empty round trip is subtracted. Every call has inputs of its own with contents that were never there before.
After each round the worker copies all outputs to memory that the judge sees; work that was put off shows in the time
that this takes, and one output picked at random is judged. Baseline and submission take turns in random order, each in
a worker of its own, the other one stopped.
"""

from __future__ import annotations

import random
import secrets
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch

from reference.exercise import DTYPES, Case

from .errors import InfrastructureError
from .gpu import GpuMemory
from .runner import Worker, WorkerGone

ROUND_S = 0.009  # short rounds are biased by start-up: 120 calls of 71 µs were within 1 % of CUDA events, 20 were not
WARM_UP_CALLS = 5
MOST_CALLS = 200
LEAST_CALLS = 6
POOL_SHARE = 0.35  # of the free device memory: the worker's own outputs take as much again
ECHOES = 200
REPLY_TIMEOUT_S = 120.0
ALIGNMENT = 4096


class TimingError(Exception):
    """A player's worker failed during a round; `reply` is what came instead of an answer."""

    def __init__(self, player: str, reply: dict[str, Any] | WorkerGone) -> None:
        super().__init__(player)
        self.player = player
        self.reply = reply


@dataclass
class Pool:
    """Inputs and outputs of all calls of a round in device memory that both workers map. Offsets in bytes."""

    case: Case
    output_shape: tuple[int, ...]
    calls: int
    memory: GpuMemory
    input_offsets: list[list[int]]
    output_offsets: list[int]
    generator: torch.Generator

    @classmethod
    def allocate(cls, case: Case, output_shape: tuple[int, ...], calls: int) -> Pool:
        """Memory for so many calls, or as many as fit. Raises InfrastructureError where not even a few do."""
        itemsize = DTYPES[case.dtype].itemsize
        sizes = [*(spec.numel * itemsize for spec in case.tensors), prod(output_shape) * itemsize]
        per_call = sum(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)
        free, _ = torch.cuda.mem_get_info()
        calls = min(calls, int(free * POOL_SHARE) // per_call)
        if calls < LEAST_CALLS:
            raise InfrastructureError(
                f"{case.describe()}: {LEAST_CALLS} calls need {LEAST_CALLS * per_call} bytes of device memory; "
                f"{free} are free. Another process may be using the GPU."
            )
        inputs, outputs, position = [], [], 0
        for _ in range(calls):
            offsets = []
            for size in sizes:
                offsets.append(position)
                position += -(-size // ALIGNMENT) * ALIGNMENT
            inputs.append(offsets[:-1])
            outputs.append(offsets[-1])
        # torch's own generators start with a known seed, from which a submission could tell the inputs to come.
        generator = torch.Generator("cuda")
        generator.manual_seed(secrets.randbits(63))
        return cls(case, output_shape, calls, GpuMemory(position), inputs, outputs, generator)

    def input(self, call: int, index: int) -> torch.Tensor:
        """One input of one call, as the judge sees it."""
        return self._view(self.input_offsets[call][index], self.case.tensors[index].shape)

    def output(self, call: int) -> torch.Tensor:
        """What the worker copied out for one call."""
        return self._view(self.output_offsets[call], self.output_shape)

    def _view(self, offset: int, shape: tuple[int, ...]) -> torch.Tensor:
        dtype = DTYPES[self.case.dtype]
        return self.memory.tensor[offset : offset + prod(shape) * dtype.itemsize].view(dtype).view(shape)

    def refill(self) -> None:
        """Contents that were never there before, and outputs that hold NaN."""
        for call in range(self.calls):
            for index in range(len(self.case.tensors)):
                self.input(call, index).normal_(generator=self.generator)
            self.output(call).fill_(torch.nan)
        torch.cuda.synchronize()

    def messages(self) -> list[list[dict[str, Any]]]:
        """Per call, what the worker needs to make its views."""
        return [
            [
                {"dtype": self.case.dtype, "shape": list(spec.shape), "offset": offset,
                 "strides": list(spec.geometry().strides)}
                for spec, offset in zip(self.case.tensors, offsets, strict=True)
            ]
            for offsets in self.input_offsets
        ]  # fmt: skip


@dataclass
class Player:
    """Baseline or submission: its worker, and the seconds of one call in each of its rounds."""

    name: str
    worker: Worker
    label: str
    seconds: list[float] = field(default_factory=list)
    fetch_seconds: list[float] = field(default_factory=list)

    def ask(self, message: dict[str, Any], fd: int | None = None) -> dict[str, Any]:
        """Send a message and give the answer. Raises TimingError where there is none, or an error."""
        self.worker.post(message, () if fd is None else (fd,))
        reply = self.worker.wait(REPLY_TIMEOUT_S)
        if isinstance(reply, WorkerGone) or reply.get("kind") != "done":
            raise TimingError(self.name, reply)
        return reply

    def attach(self, pool: Pool) -> None:
        """Have the worker map the pool."""
        self.ask({"kind": "attach", "size": pool.memory.size}, pool.memory.fd)

    def empty_round_trip_s(self) -> float:
        """The median time of a message that asks for nothing."""
        times = []
        for _ in range(ECHOES):
            begun = time.perf_counter()
            self.ask({"kind": "echo"})
            times.append(time.perf_counter() - begun)
        return statistics.median(times)

    def prepare(self, pool: Pool, calls: int) -> None:
        """Have the worker make its views and warm up."""
        message = {"kind": "prepare_round", "calls": pool.messages()[:calls], "warm_up": WARM_UP_CALLS,
                   "options": [value for _, value in pool.case.options], "name": self.label}  # fmt: skip
        self.ask(message)

    def run(self) -> float:
        """Seconds from the message that starts the round to the answer that ends it."""
        begun = time.perf_counter()
        self.ask({"kind": "run_round"})
        return time.perf_counter() - begun

    def fetch(self, pool: Pool, calls: int) -> float:
        """Have the worker copy all outputs into the pool; seconds that this took."""
        size = prod(pool.output_shape) * DTYPES[pool.case.dtype].itemsize
        message = {"kind": "fetch_round", "shape": list(pool.output_shape), "dtype": pool.case.dtype,
                   "offsets": pool.output_offsets[:calls], "bytes": size}  # fmt: skip
        begun = time.perf_counter()
        self.ask(message)
        return time.perf_counter() - begun


class Duel:
    """Pairs of rounds of a baseline and a submission on one pool.

    `judge_output(call)` looks at one output of the submission's round and gives a complaint, or None;
    `wait_until_idle()` returns once nothing else runs on the device.
    """

    def __init__(self, baseline: Player, submission: Player, pool: Pool, judge_output: Callable[[int], str | None],
                 wait_until_idle: Callable[[], None], seed: int) -> None:  # fmt: skip
        self.baseline = baseline
        self.submission = submission
        self.complaint: str | None = None
        self._pool = pool
        self._judge_output = judge_output
        self._wait_until_idle = wait_until_idle
        self._random = random.Random(seed)  # noqa: S311 - order of rounds, not a secret
        for player in (baseline, submission):
            player.attach(pool)
        self._overhead_s = {player.name: player.empty_round_trip_s() for player in (baseline, submission)}
        self.calls = self._calls_needed()
        self._baseline_first = True

    def _calls_needed(self) -> int:
        """Calls a round so that the faster player's takes long enough."""
        calls = min(self._pool.calls, LEAST_CALLS)
        for _ in range(3):  # the first rounds are slow: memory is allocated, and few calls hide little start-up
            per_call = []
            for player in (self.baseline, self.submission):
                self._pool.refill()
                player.prepare(self._pool, calls)
                per_call.append((player.run() - self._overhead_s[player.name]) / calls)
                player.fetch(self._pool, calls)
            calls = max(2, min(self._pool.calls, MOST_CALLS, int(ROUND_S / max(1e-6, min(per_call))) + 1))
        return calls

    def before(self) -> None:
        """Everything ahead of the submission's round, the baseline's half of the time included."""
        self._baseline_first = self._random.random() < 0.5
        if self._baseline_first:
            self._baseline_round()
        self._make_ready(self.submission)

    def timed(self) -> None:
        """The submission's round."""
        self._book(self.submission, self.submission.run())

    def after(self) -> None:
        """Take the outputs, judge one of them, and let the baseline run where it has not."""
        self.submission.fetch_seconds.append(self.submission.fetch(self._pool, self.calls))
        if self.complaint is None:
            self.complaint = self._judge_output(self._random.randrange(self.calls))
        if not self._baseline_first:
            self._baseline_round()

    def _make_ready(self, player: Player) -> None:
        """Have a player warm up, and give it its inputs only then, while it stands still and its device is idle."""
        player.prepare(self._pool, self.calls)
        player.worker.pause(paused=True)
        try:
            self._pool.refill()
            self._wait_until_idle()
        finally:
            player.worker.pause(paused=False)

    def _baseline_round(self) -> None:
        self.submission.worker.pause(paused=True)
        try:
            self._make_ready(self.baseline)
            self._book(self.baseline, self.baseline.run())
            self.baseline.fetch_seconds.append(self.baseline.fetch(self._pool, self.calls))
        finally:
            self.submission.worker.pause(paused=False)

    def _book(self, player: Player, seconds: float) -> None:
        player.seconds.append((seconds - self._overhead_s[player.name]) / self.calls)
