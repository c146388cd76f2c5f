"""The judge fed by a hostile worker: whatever it sends, there is a verdict, and never one that earns points.

A thread on the other end of a worker's socket stands for the worker; it has the arena too, as a real one does.
"""

from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import reference
from grader.arena import Arena, HostMemory
from grader.compiles import judge_compiles
from grader.errors import InfrastructureError
from grader.judge import Caller, Target
from grader.protocol import MAX_FRAME_BYTES, Decoder, Message
from grader.reply import CallReply
from grader.report.terminal import explain
from grader.result import ItemResult
from grader.rubric import Limits
from grader.runner import Worker
from grader.scoring import score
from grader.submission import Sources
from grader.verdict import Status, Verdict
from reference.exercise import Case
from tests.corpus import rubric_for

CASE = Case.parse("softmax/ragged/float32/x:3x7:normal:contiguous/0")
GRADIENT = Case.parse(
    "rmsnorm/gradient/float32/x:3x7:normal:contiguous,weight:7:normal:contiguous,dout:3x7:normal:contiguous/0"
)
COMPILES = Case("softmax", "compiles", "float32", CASE.tensors)
TOLERANCES = {
    case: rubric_for(case.exercise, f"{case.exercise}.py").rubric.tolerance_for(case) for case in (CASE, GRADIENT)
}
TIMEOUT_S = 0.3
ARENA_BYTES = 1 << 20
REQUEST = 2  # the call, after the load
Answer = Callable[[Message, mmap.mmap], Iterator[bytes]]


class Line:
    """Stands for the zygote of hostile workers: each is a thread that answers a load honestly, the rest as it likes."""

    limits = Limits()
    worker_start_s = 5.0

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def fork(self) -> Worker:
        ours, theirs = socket.socketpair()
        output_read, output_write = os.pipe()
        os.close(output_write)
        arena = Arena(HostMemory(ARENA_BYTES))
        folder = Path(tempfile.mkdtemp(prefix="hostile-"))
        threading.Thread(target=self._serve, args=(theirs, mmap.mmap(arena.fd, ARENA_BYTES)), daemon=True).start()
        return Worker(self, 1, ours, arena, output_read, folder)  # type: ignore[arg-type]

    def _serve(self, channel: socket.socket, arena: mmap.mmap) -> None:
        decoder = Decoder()
        with channel, contextlib.suppress(OSError):
            while data := channel.recv(1 << 16):
                decoder.feed(data)
                while (message := decoder.next_message()) is not None:
                    if message["kind"] == "load":
                        channel.sendall(frame({"kind": "loaded", "id": message["id"]}))
                    else:
                        for piece in self._answer(message, arena):
                            channel.sendall(piece)
                        return  # and close

    def stop(self, number: int) -> int:
        return -9

    def exit_code(self, number: int, timeout_s: float) -> int:
        return 0


def frame(message: object, length: int | None = None) -> bytes:
    body = json.dumps(message).encode()
    return struct.pack(">I", len(body) if length is None else length) + body


def target(exercise: str) -> Target:
    sources = Sources(f"{exercise}.py", {f"{exercise}.py": b""})
    return Target(reference.load(exercise), sources, f"{exercise}.py", exercise, tf32=True, case_timeout_s=TIMEOUT_S)


def verdict_on(answer: Answer, case: Case = CASE) -> Verdict:
    with Caller(Line(answer), target(case.exercise)) as caller:  # type: ignore[arg-type]
        return caller.judge(case, TOLERANCES[case])


def no_points(verdict: Verdict) -> bool:
    """Nothing earned, and not passed off as a fault of the grader."""
    return score(verdict.status, 10.0, 1.0).points == 0 and verdict.status is not Status.INFRASTRUCTURE_ERROR


def record(verdict: Verdict) -> None:
    """Write a verdict into a result, as every one is."""
    item = ItemResult(
        check="ragged", dtype="float32", status=verdict.status, points=0, max_points=1, gradable=True,
        message=verdict.message, hint=verdict.hint, evidence=verdict.evidence, staff=verdict.staff,
    )  # fmt: skip
    ItemResult.model_validate_json(item.model_dump_json())
    assert len(item.model_dump_json()) < 1 << 20
    explain(verdict, "").encode()


def honest(case: Case = CASE) -> Message:
    """The reply of an honest worker to a call whose outputs have the right form."""
    exercise = reference.load(case.exercise)
    outputs = exercise.gradients(case) or exercise.outputs(case)
    return {
        "kind": "returned",
        "outputs": [{"type": "Tensor", "shape": list(output.shape), "dtype": output.dtype, "device": "cpu"}
                    for output in outputs],
        "record": {"launches": [{"kernel": "k", "grid": [1, 1, 1], "config": None, "num_configs": 1}],
                   "launch_count": 1,
                   "bytes_loaded": 84, "bytes_stored": 84, "faults": [], "warnings": [], "unsupported": None,
                   "inputs_loaded": True},
        "operators": [], "allocated_bytes": 84, "largest_allocated": [3, 7], "threads": 1, "processes": 0,
        "id": REQUEST,
    }  # fmt: skip


def right(arena: mmap.mmap, message: Message) -> None:
    """Write what softmax gives to the place of the output."""
    import torch

    place = message["arguments"][0]["tensor"]["offset"]
    x = torch.frombuffer(bytearray(arena[place : place + 84]), dtype=torch.float32).view(3, 7)
    data = torch.softmax(x.double(), -1).float().numpy().tobytes()
    start = message["outputs"][0]["offset"]
    arena[start : start + len(data)] = data


def test_the_line_itself_is_right():
    """An honest answer with a right output passes: what follows fails for what is changed in it."""

    def answer(message: Message, arena: mmap.mmap) -> Iterator[bytes]:
        right(arena, message)
        yield frame(honest())

    assert verdict_on(answer).status is Status.PASSED


@settings(max_examples=150)
@given(st.lists(st.binary(max_size=60), max_size=5))
@example([b"\xff\xff\xff\xff"])
@example([b"\x00\x00\x00\x02{}"])
@example([b"\x00\x00\x00\x00"])
def test_any_bytes_give_a_verdict_without_points(pieces):
    verdict = verdict_on(lambda *_: iter(pieces))
    assert verdict.status in (Status.CRASHED, Status.TIMED_OUT)
    assert no_points(verdict)


@settings(max_examples=60)
@given(at=st.floats(0, 1, exclude_max=True), damage=st.tuples(st.sampled_from([0, 1, 2, 3, 4, -1]), st.integers(0, 7)),
       cut=st.booleans())  # fmt: skip
def test_a_right_reply_cut_or_damaged_gives_no_points(at, damage, cut):
    def answer(message: Message, arena: mmap.mmap) -> Iterator[bytes]:
        right(arena, message)
        whole = bytearray(frame(honest()))
        whole[damage[0]] ^= (0 if cut else 1) << damage[1]  # the length or a brace: it can't stay what it was
        yield bytes(whole[: int(at * len(whole))] if cut else whole)

    assert no_points(verdict_on(answer))


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    "body",
    [
        DEEP.encode(),
        b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        b'{"id": 2, "kind": "returned", "outputs": ' + DEEP.encode() + b"}",
        b"9" * 100_000,
        b'{"id": ' + b"9" * 5000 + b"}",
        b"\xff\xfe{\x00}\x00",
        b'{"id": 2, "id": 2}',
        b"NaN",
        b'{"id": NaN}',
        b'{"id": 2.0}',
        b'{"id": true}',
        b'{"id": "2"}',
        b'{"id": 3}',
        b'{"id": 1}',
        b"[]",
        b"",
        b'{"id": 2, "\\ud800": "\\udfff"}',
    ],
)
def test_json_of_another_kind_gives_a_verdict_without_points(body):
    verdict = verdict_on(lambda *_: iter([struct.pack(">I", len(body)) + body]))
    assert verdict.status is Status.CRASHED
    assert no_points(verdict)
    assert len(verdict.message) < 1000
    record(verdict)


def test_a_frame_longer_than_allowed_is_refused_before_it_has_come():
    def answer(message: Message, arena: mmap.mmap) -> Iterator[bytes]:
        yield struct.pack(">I", MAX_FRAME_BYTES + 1)
        for _ in range(64):
            yield b" " * (1 << 16)

    verdict = verdict_on(answer)
    assert verdict.status is Status.CRASHED
    assert "announced" in verdict.message


def test_a_worker_that_sends_byte_by_byte_is_timed_out():
    def answer(message: Message, arena: mmap.mmap) -> Iterator[bytes]:
        yield struct.pack(">I", 1000)
        for _ in range(100):
            yield b" "
            time.sleep(0.02)

    assert verdict_on(answer).status is Status.TIMED_OUT


def test_several_replies_at_once_count_once():
    def answer(message: Message, arena: mmap.mmap) -> Iterator[bytes]:
        yield frame(honest()) * 50

    assert verdict_on(answer).status is Status.NOT_FINITE  # nothing was written


# ---------------------------------------------------------------- valid but lying

scalars = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8)
    | st.sampled_from([-1, 0, 2**31, 2**63, 1e308, math.nan, math.inf, "", "Tensor", "float32", "\ud800", "\x1b[2J"])
)  # fmt: skip
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


def places(value: object, path: tuple = ()) -> Iterator[tuple]:
    """Every place inside a JSON value."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, (*path, index))


def put(value: object, path: tuple, new: object) -> object:
    """A copy with another value at one place."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)  # type: ignore[call-overload]
    copy[path[0]] = put(copy[path[0]], path[1:], new)
    return copy


def lies(honest_reply: Message) -> st.SearchStrategy[Message]:
    """Replies that are wrong at one to three places, the request's number left as it is."""

    def told(changes: list[tuple[int, object]]) -> Message:
        reply: object = honest_reply
        for number, value in changes:
            inside = [path for path in places(reply) if path and path != ("id",)]
            reply = put(reply, inside[number % len(inside)], value)
        return reply  # type: ignore[return-value]

    return st.lists(st.tuples(st.integers(0, 10_000), anything), min_size=1, max_size=3).map(told)


@settings(max_examples=200)
@given(lie=lies(honest()), extra=st.dictionaries(st.text(max_size=6), anything, max_size=2))
def test_a_lie_anywhere_in_a_reply_earns_nothing_without_a_right_output(lie, extra):
    verdict = verdict_on(lambda *_: iter([frame({**extra, "points": 100, "passed": True, **lie})]))
    assert no_points(verdict), verdict
    record(verdict)


@settings(max_examples=50)
@given(lie=lies(honest(GRADIENT)))
def test_a_lie_about_gradients_earns_nothing_without_right_ones(lie):
    verdict = verdict_on(lambda *_: iter([frame(lie)]), GRADIENT)
    assert no_points(verdict), verdict
    record(verdict)


@settings(max_examples=100)
@given(lie=lies({"kind": "compiled", "id": REQUEST, "kernels": [
    {"kernel": "k", "target": 90, "config": None, "ok": True, "stage": "", "error": "", "file": "", "line": None,
     "shared_bytes": 0, "num_warps": 4, "registers": None, "spills": None, "note": ""}]}))  # fmt: skip
def test_a_lie_about_compiled_kernels_is_a_verdict(lie):
    with Caller(Line(lambda *_: iter([frame(lie)])), target("softmax")) as caller:  # type: ignore[arg-type]
        try:
            verdict = judge_compiles(caller, [COMPILES], [90]).verdict
        except InfrastructureError:
            assert lie["kind"] == "unavailable"
        else:
            record(verdict)


@settings(max_examples=50)
@given(error=anything, kind=st.sampled_from(["load_failed", "loaded?", "", None]))
def test_a_lie_about_loading_is_a_verdict_without_points(error, kind):
    class Refusing(Line):
        def _serve(self, channel: socket.socket, arena: mmap.mmap) -> None:
            with channel, contextlib.suppress(OSError):
                channel.recv(1 << 16)
                channel.sendall(frame({"kind": kind, "error": error, "id": 1}))

    with Caller(Refusing(lambda *_: iter(())), target("softmax")) as caller:  # type: ignore[arg-type]
        verdict = caller.judge(CASE, TOLERANCES[CASE])
    assert no_points(verdict)
    record(verdict)


@given(st.dictionaries(st.text(max_size=8), anything, max_size=4))
def test_what_a_reply_claims_beyond_its_form_is_dropped(extra):
    message = {**extra, **honest()}
    assert CallReply.model_validate(message).model_dump() == CallReply.model_validate(honest()).model_dump()


# ---------------------------------------------------------------- the arena while it is read


@pytest.mark.parametrize("seed", range(4))
def test_writes_while_the_arena_is_read_are_judged_as_one_copy(seed):
    """A writer that never stops: each verdict is on one copy, and what it does to inputs and guard bands is seen."""
    done = threading.Event()

    def answer(message: Message, arena: mmap.mmap) -> Iterator[bytes]:
        start = message["outputs"][0]["offset"]
        place = message["arguments"][0]["tensor"]["offset"]

        def write() -> None:
            number = seed
            while not done.is_set():
                number = (number * 1103515245 + 12345) % 2**31
                arena[start : start + 84] = bytes([number & 255]) * 84
                if seed % 2:
                    arena[place : place + 4] = struct.pack("<f", number)

        threading.Thread(target=write, daemon=True).start()
        time.sleep(0.01)
        yield frame(honest())
        done.wait(1)

    try:
        verdict = verdict_on(answer)
    finally:
        done.set()
    assert no_points(verdict)
    assert verdict.status in (Status.WRONG_VALUES, Status.NOT_FINITE, Status.MODIFIED_INPUT), verdict
    assert not seed % 2 or verdict.status is Status.MODIFIED_INPUT
