"""Trusted side: times a baseline and a submission against each other on a GPU, by the judge's own clock.

A round is one message "run these calls" to a worker. The clock starts when it is sent and stops when the answer has
come; what the baseline's rounds take beside their calls is subtracted from both. Every call has inputs of its own, with
contents that were never there before and that appear only after the warm-up. After each round the judge erases the
inputs, and the worker copies all outputs to memory that the judge sees: work that was put off finds no inputs, or shows
in the time that this takes. One output, picked at random, is judged. Baseline and submission take turns in random
order, each in a worker of its own; the other one is stopped meanwhile.
"""

from __future__ import annotations

import random
import secrets
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any

import torch

from reference.exercise import DTYPES, Case, Exercise

from .errors import InfrastructureError
from .judge import call_arguments
from .runner import Worker, WorkerGone
from .verdict import Verdict

if TYPE_CHECKING:
    from .gpu import GpuMemory

ROUND_S = 0.009  # short rounds are biased by start-up: 120 calls of 71 µs were within 1 % of CUDA events, 20 were not
WARM_UP_CALLS = 5
MOST_CALLS = 200
LEAST_CALLS = 3
LEAST_CALIBRATIONS = 3
MOST_CALIBRATIONS = 8
CALLS_FACTOR = 1.1
POOL_SHARE = 0.35  # of the free device memory: the worker's own outputs take as much again
START_UP_CALLS = 9
START_UP_ROUNDS = 9
MOST_START_UP_S = 0.003
IDLE_TIMEOUT_S = 2.0
REPLY_TIMEOUT_S = 60.0
MOST_REPEATS = 10
COOLING_S = 1.0
ALIGNMENT = 4096


class TimingError(Exception):
    """A player's worker failed during a round; `reply` is what came instead of an answer."""

    def __init__(self, player: str, reply: dict[str, Any] | WorkerGone) -> None:
        super().__init__(player)
        self.player = player
        self.reply = reply


class BusyError(Exception):
    """The device was busy while the named player stood still."""

    def __init__(self, player: str) -> None:
        super().__init__(f"the device is busy while {player} stands still")
        self.player = player


@dataclass
class Pool:
    """Inputs and outputs of all calls of a round in device memory that both workers map. Offsets in bytes."""

    exercise: Exercise
    case: Case
    output_shape: tuple[int, ...]
    calls: int
    memory: GpuMemory
    input_offsets: list[list[int]]
    output_offsets: list[int]
    generator: torch.Generator

    @classmethod
    def allocate(cls, exercise: Exercise, case: Case, calls: int) -> Pool:
        """Memory for so many calls, or as many as fit. Raises InfrastructureError where not even a few do."""
        from .gpu import GpuMemory  # needs the extra `gpu`

        output_shape = exercise.outputs(case)[0].shape
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
        return cls(exercise, case, output_shape, calls, GpuMemory(position), inputs, outputs, generator)

    def input(self, call: int, index: int) -> torch.Tensor:
        """One input of one call, as the judge sees it."""
        return self._view(self.input_offsets[call][index], self.case.tensors[index].shape)

    def output(self, call: int) -> torch.Tensor:
        """What the worker copied out for one call."""
        return self._view(self.output_offsets[call], self.output_shape)

    def _view(self, offset: int, shape: tuple[int, ...]) -> torch.Tensor:
        dtype = DTYPES[self.case.dtype]
        return self.memory.tensor[offset : offset + prod(shape) * dtype.itemsize].view(dtype).view(shape)

    def refill(self, calls: int) -> None:
        """For so many calls: contents that were never there before, and outputs that hold NaN."""
        for call in range(calls):
            for index in range(len(self.case.tensors)):
                self.input(call, index).normal_(generator=self.generator)
            self.output(call).fill_(torch.nan)
        torch.cuda.synchronize()

    def take(self, call: int, calls: int) -> list[torch.Tensor]:
        """Copies of one call's inputs; all that so many calls used is erased, so that late work finds NaN."""
        kept = [self.input(call, index).clone() for index in range(len(self.case.tensors))]
        end = self.input_offsets[calls][0] if calls < self.calls else self.memory.size
        self.memory.tensor[:end].fill_(0xFF)
        torch.cuda.synchronize()
        return kept

    def messages(self, calls: int) -> list[list[dict[str, Any]]]:
        """For each of the first `calls` calls, what the worker needs to make its arguments."""
        return [
            call_arguments(self.exercise, self.case, [
                {"dtype": self.case.dtype, "shape": list(spec.shape), "offset": offset,
                 "strides": list(spec.geometry().strides)}
                for spec, offset in zip(self.case.tensors, offsets, strict=True)
            ])["arguments"]
            for offsets in self.input_offsets[:calls]
        ]  # fmt: skip


@dataclass
class Player:
    """Baseline or submission: its worker, the calls of its rounds, and for each round the seconds of one call.

    While it is `recorded`, its worker notes the operators and launches of its rounds.
    """

    name: str
    worker: Worker
    label: str
    recorded: bool = False
    calls: int = 0
    seconds: list[float] = field(default_factory=list)
    fetch_seconds: list[float] = field(default_factory=list)
    refill_seconds: list[float] = field(default_factory=list)
    busy_rounds: int = 0

    def forget(self) -> None:
        """Drop what was measured so far: it was a pilot."""
        self.seconds, self.fetch_seconds, self.refill_seconds, self.busy_rounds = [], [], [], 0

    def ask(self, message: dict[str, Any], fd: int | None = None, *, spin: bool = False) -> dict[str, Any]:
        """Send a message and give the answer. Raises TimingError where there is none, or an error."""
        self.worker.post(message, () if fd is None else (fd,))
        reply = self.worker.wait(REPLY_TIMEOUT_S, spin=spin)
        if isinstance(reply, WorkerGone) or reply.get("kind") != "done":
            raise TimingError(self.name, reply)
        return reply

    def drop_round(self) -> None:
        """Forget the last round: it does not count."""
        for kept in (self.seconds, self.fetch_seconds, self.refill_seconds):
            kept.pop()

    def attach(self, pool: Pool) -> None:
        """Have the worker map the pool."""
        self.ask({"kind": "attach", "size": pool.memory.size}, pool.memory.fd)

    def prepare(self, pool: Pool) -> None:
        """Have the worker make its views and warm up."""
        self.ask({"kind": "prepare_round", "calls": pool.messages(self.calls), "warm_up": WARM_UP_CALLS,
                  "name": self.label})  # fmt: skip

    def run(self) -> float:
        """Seconds from the message that starts the round to the answer that ends it."""
        begun = time.perf_counter()
        self.ask({"kind": "run_round", "record": self.recorded}, spin=True)
        return time.perf_counter() - begun

    def fetch(self, pool: Pool) -> dict[str, Any]:
        """Have the worker copy all outputs into the pool; its answer, with what was recorded of the round.

        Notes the seconds that this took, by call.
        """
        size = prod(pool.output_shape) * DTYPES[pool.case.dtype].itemsize
        message = {"kind": "fetch_round", "shape": list(pool.output_shape), "dtype": pool.case.dtype,
                   "offsets": pool.output_offsets[: self.calls], "bytes": size}  # fmt: skip
        begun = time.perf_counter()
        reply = self.ask(message)
        self.fetch_seconds.append((time.perf_counter() - begun) / self.calls)
        return reply


class Duel:
    """Pairs of rounds of a baseline and a submission on one pool.

    `judge_round(reply, output, inputs)` looks at what a round of the submission was, and one of its outputs, and gives
    a verdict that ends it all, or None; `is_idle()` tells whether nothing else runs on the device, `is_throttled()`
    whether it slows down to protect itself.
    """

    def __init__(
        self,
        baseline: Player,
        submission: Player,
        pool: Pool,
        judge_round: Callable[[dict[str, Any], torch.Tensor, list[torch.Tensor]], Verdict | None],
        is_idle: Callable[[], bool],
        is_throttled: Callable[[], bool],
        seed: int,
    ) -> None:
        self.baseline = baseline
        self.submission = submission
        self.complaint: Verdict | None = None
        self._pool = pool
        self._judge_round = judge_round
        self._is_idle = is_idle
        self._is_throttled = is_throttled
        self.repeated = 0
        self._random = random.Random(seed)  # noqa: S311 - order of rounds, not a secret
        self._overhead_s = 0.0
        self._chosen = 0
        self._kept: list[torch.Tensor] = []
        self._baseline_first = True
        self._overhead_s = self._start_up_s()
        for player in (baseline, submission):
            player.attach(pool)
            self._calibrate(player)

    def _start_up_s(self) -> float:
        """What a round takes beside its calls: the messages, and waking process and device up for the first call.

        Rounds of one tiny call and of several differ by the calls alone; the rest of a round is this. Only the
        baseline's worker is asked: a submission's could take its time for it, so that more is subtracted.
        """
        exercise, player = self._pool.exercise, self.baseline
        tiny = exercise.edge_cases("fused")[0]
        case = replace(self._pool.case, tensors=tiny.tensors, options=tiny.options)
        pool = Pool.allocate(exercise, case, START_UP_CALLS)
        times = {}
        try:
            player.attach(pool)
            for calls in (START_UP_CALLS, 1):
                player.calls = calls
                player.forget()
                for _ in range(START_UP_ROUNDS):
                    self._round(player, pool)
                times[calls] = statistics.median(player.seconds) * calls
        finally:
            pool.memory.close()
        one_call_s = (times[START_UP_CALLS] - times[1]) / (START_UP_CALLS - 1)
        return min(MOST_START_UP_S, max(0.0, times[1] - one_call_s))

    def _calibrate(self, player: Player) -> None:
        """Choose the calls a round so that it takes long enough, and not much longer."""
        player.calls = min(self._pool.calls, LEAST_CALLS)
        for count in range(1, MOST_CALIBRATIONS + 1):
            player.forget()
            self._round(player, self._pool)
            needed = self._calls_needed(player)
            # The first rounds are slow: memory is allocated, and few calls hide little of the start-up.
            if count >= LEAST_CALIBRATIONS and needed <= CALLS_FACTOR * player.calls:
                break
            player.calls = needed

    def _calls_needed(self, player: Player) -> int:
        return max(2, min(self._pool.calls, MOST_CALLS, int(ROUND_S / max(1e-6, player.seconds[-1])) + 1))

    def before(self) -> None:
        """Everything ahead of the submission's round, the baseline's half of the time included."""
        self._baseline_first = self._random.random() < 0.5
        if self._baseline_first:
            self._baseline_round()
        self._make_ready(self.submission, self._pool)

    def timed(self) -> None:
        """The submission's round."""
        self._book(self.submission, self.submission.run())

    def after(self) -> None:
        """Take the outputs, judge one, and let the baseline run where it has not; a throttled pair is played again."""
        reply = self._take_outputs(self.submission, self._pool)
        if self.complaint is None:
            self.complaint = self._judge_round(reply, self._pool.output(self._chosen), self._kept)
        if not self._baseline_first:
            self._baseline_round()
        if self.repeated < MOST_REPEATS and self._is_throttled():
            self._repeat()

    def _repeat(self) -> None:
        """Play the last pair again once the device has cooled down a little."""
        self.repeated += 1
        for player in (self.baseline, self.submission):
            player.drop_round()
        time.sleep(COOLING_S)
        self.before()
        self.timed()
        self.after()

    def _baseline_round(self) -> None:
        self.submission.worker.pause(paused=True)
        try:
            self._round(self.baseline, self._pool)
        finally:
            self.submission.worker.pause(paused=False)

    def _round(self, player: Player, pool: Pool) -> None:
        self._make_ready(player, pool)
        self._book(player, player.run())
        self._take_outputs(player, pool)

    def _make_ready(self, player: Player, pool: Pool) -> None:
        """Have a player warm up, and give it its inputs only then, while it stands still and the device is idle.

        Raises BusyError where the device never gets idle.
        """
        pool.refill(1)  # to warm up on: what was erased is NaN, which the exercise does not promise
        player.prepare(pool)
        player.worker.pause(paused=True)
        try:
            deadline = time.monotonic() + IDLE_TIMEOUT_S
            while not self._is_idle():
                if time.monotonic() > deadline:
                    raise BusyError(player.name)
            begun = time.perf_counter()
            pool.refill(player.calls)
            player.refill_seconds.append((time.perf_counter() - begun) / player.calls)
            # Work that had waited on the device for the inputs to come shows here.
            player.busy_rounds += not self._is_idle()
        finally:
            player.worker.pause(paused=False)

    def _take_outputs(self, player: Player, pool: Pool) -> dict[str, Any]:
        """Erase the inputs at once, so that nothing can be computed from them any more, then take the outputs."""
        self._chosen = self._random.randrange(player.calls)
        self._kept = pool.take(self._chosen, player.calls)
        return player.fetch(pool)

    def _book(self, player: Player, seconds: float) -> None:
        player.seconds.append(max(1e-9, seconds - self._overhead_s) / player.calls)
