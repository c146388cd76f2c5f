"""Untrusted side: loads one submission file and calls its entry point on views into the arena.

Nothing here is trusted by the judge. It knows no expected output, no seed and no clock that counts; what it says is
checked against the arena, and what it can't be checked for (launches, bytes moved) costs the submission only its own
points.
"""

from __future__ import annotations

import contextlib
import os
import platform
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

from grader import protocol
from grader.worker.entry import MAX_LIST, MAX_TEXT, describe, find_entry, import_file, type_name

MAX_KERNELS = 128


def prepare() -> dict[str, str]:
    """Import torch and Triton and make them ready, once, before any fork. Gives the versions."""
    import numpy as np
    import torch
    import triton

    # One thread: a forked process has no copy of a thread pool, and two workers share two cores.
    torch.set_num_threads(1)
    # In deterministic mode torch.empty is filled with NaN, so that an unwritten output shows. The public function for
    # it imports all of torch's compiler, five seconds' worth.
    torch._C._set_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]
    backend().prepare()
    return {
        "torch": torch.__version__,
        "triton": triton.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def backend() -> ModuleType:
    """Where kernels run in this process: `host` with the interpreter, or `gpu`."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        from grader.worker import host

        return host
    from grader.worker import gpu

    return gpu


class Worker:
    """One worker: the submission's module, loaded once, and the arena."""

    def __init__(self, channel: socket.socket, arena_fd: int, arena_size: int) -> None:
        self._channel = channel
        self._pid = os.getpid()
        self.decoder = protocol.Decoder()
        self._backend = backend()
        self._arena = self._backend.attach(arena_fd, arena_size)
        self._root = ""
        self._round: Any = None
        self._line: Any = None
        self._planted: Callable[[], None] | None = None
        self._entry: Callable[..., Any] | None = None

    def load(self, message: protocol.Message) -> protocol.Message:
        """Import the exercise's file and find its entry point."""
        path = Path(message["root"]) / message["file"]
        os.environ.update(message["environment"])
        self._root = message["root"]
        if message["plant"]:
            from grader.worker import harness

            self._line = harness.Line(self._channel, self.decoder)
            self._planted = harness.install(self._line, simulated=message["plant"] == "simulated")
        # Behind everything else: a submission's torch.py shadows nothing.
        sys.path.append(str(path.parent))
        try:
            module = import_file(path)
            self._entry = find_entry(module, message["entry"])
        except BaseException as error:  # noqa: BLE001 - a submission may raise anything, SystemExit included
            return {"kind": "load_failed", "error": describe(error, self._root)}
        return {"kind": "loaded"}

    def call(self, message: protocol.Message) -> protocol.Message:
        """Call the entry point on the case in the arena and copy what it returns to the output region."""
        from grader.worker import backward
        from grader.worker.operators import OperatorLog

        assert self._entry is not None, "the judge loads before it calls"
        arguments = self._arguments(message["arguments"])
        upstream = [self._view(tensor) for tensor in message["upstream"]]
        leaves = backward.require(arguments, message["differentiate"])
        log = OperatorLog()
        with self._backend.record({**message["interpreter"], "inputs": self._addresses()}) as record:
            try:
                with log:
                    result = self._entry(*arguments)
                    if upstream:
                        result = backward.gradients(result, leaves, upstream)
                self.end_if_forked()
                self._backend.synchronize()
                outputs = self._copy_out(result, message["outputs"])
                self._backend.synchronize()
            except BaseException as error:  # noqa: BLE001 - as in load
                reply: protocol.Message = {"kind": "raised", "error": describe(error, self._root)}
            else:
                reply = {"kind": "returned", "outputs": outputs}
        return {**reply, **self._facts(record, log)}

    def end_if_forked(self) -> None:
        """End a copy of this process that the submission's code made and let return: a call has one answer."""
        if os.getpid() != self._pid:
            os._exit(0)

    def _facts(self, record: Any, log: Any) -> dict[str, Any]:
        facts: dict[str, Any] = asdict(record)
        for name in ("launches", "faults", "warnings"):
            facts[name] = facts[name][:MAX_LIST]
        return {
            "record": facts,
            "operators": log.summary(MAX_LIST),
            "allocated_bytes": log.allocated_bytes,
            "largest_allocated": log.largest_allocated,
            "threads": threading.active_count(),
            "processes": _children(),
        }

    def compile(self, message: protocol.Message) -> protocol.Message:
        """Call the entry point on tensors of the case's form with each launch turned into a compilation.

        With `gpu` in the message the tensors have no memory, and the call sees that GPU.
        """
        from grader.worker import backward, compiling

        assert self._entry is not None, "the judge loads before it calls"
        gpu = message.get("gpu")
        make = _shapes if gpu else _zeros
        arguments = [make(each["tensor"]) if "tensor" in each else each["value"] for each in message["arguments"]]
        upstream = [_zeros(tensor) for tensor in message["upstream"]]
        leaves = backward.require(arguments, message["differentiate"])
        modules = [module for module in list(sys.modules.values())
                   if str(getattr(module, "__file__", None) or "").startswith(self._root)]  # fmt: skip
        entry = self._entry

        def call() -> None:
            result = entry(*arguments)
            if upstream:
                backward.gradients(result, leaves, upstream)

        try:
            kernels = compiling.compile_call(call, modules, message["targets"], timeout_s=message["timeout_s"], gpu=gpu)
        except compiling.CallFailed as error:
            return {"kind": "call_failed", "message": error.message[:MAX_TEXT], "file": error.file, "line": error.line}
        except compiling.CompilerUnavailable as error:
            return {"kind": "unavailable", "message": str(error)[:MAX_TEXT]}
        return {"kind": "compiled", "kernels": _within_a_frame(kernels[:MAX_KERNELS])}

    def measure(self, message: protocol.Message) -> protocol.Message:
        """Call the entry point, a function that measures, on the planted workload; ends with an id of its own."""
        from grader.worker import harness

        assert self._entry is not None
        assert self._planted is not None, "the judge says what to plant when it loads"
        try:
            reply = {"kind": "measured", **harness.call(self._entry, self._planted, self._line, message)}
        except BaseException as error:  # noqa: BLE001 - as in load
            reply = {"kind": "raised", "error": describe(error, self._root)}
        return {**reply, "id": self._line.id}

    def attach(self, message: protocol.Message, fds: list[int]) -> protocol.Message:
        """Map another arena in place of the first: the pool of a timed round."""
        self._arena = self._backend.attach(fds[0], message["size"])
        return {"kind": "done"}

    def prepare_round(self, message: protocol.Message) -> protocol.Message:
        """Make the views of a timed round and warm up on clones of its first inputs."""
        from grader.worker.timed import Round

        assert self._entry is not None, "the judge loads before it calls"
        self._round = None  # frees the outputs of the last one
        calls = [self._arguments(arguments) for arguments in message["calls"]]
        scratch = [[value.clone() if hasattr(value, "clone") else value for value in calls[0]]] * message["warm_up"]
        try:
            self._round = Round(self._entry, calls, scratch, message["name"])
        except BaseException as error:  # noqa: BLE001 - as in load
            return {"kind": "raised", "error": describe(error, self._root)}
        return {"kind": "done"}

    def run_round(self, message: protocol.Message) -> protocol.Message:
        """Run the prepared round; with `record`, note its operators and launches."""
        try:
            if message["record"]:
                self._round.run_recorded(self._backend.record)
            else:
                self._round.run()
        except BaseException as error:  # noqa: BLE001 - as in load
            return {"kind": "raised", "error": describe(error, self._root)}
        return {"kind": "done"}

    def fetch_round(self, message: protocol.Message) -> protocol.Message:
        """Copy every output of the round to its place in the pool; one of another form stays NaN there.

        Says what was recorded of the round, if anything: in the answer to `run_round` that would be timed as well.
        """
        import torch

        dtype = getattr(torch, message["dtype"])
        for value, offset in zip(self._round.outputs, message["offsets"], strict=True):
            if type(value) is torch.Tensor and list(value.shape) == message["shape"] and value.dtype == dtype:
                self._region(offset, message["bytes"]).view(dtype).view(value.shape).copy_(value.detach())
        self._backend.synchronize()
        facts = {**self._facts(*self._round.recorded), "outputs": []} if self._round.recorded else {}
        return {"kind": "done", **facts}

    def _arguments(self, messages: list[dict[str, Any]]) -> list[Any]:
        """What the entry point is called with: views into the arena, and values."""
        return [self._view(each["tensor"]) if "tensor" in each else each["value"] for each in messages]

    def _view(self, tensor: dict[str, Any]) -> Any:
        import torch

        dtype = getattr(torch, tensor["dtype"])
        flat = self._region(tensor["offset"], (1 + _reach(tensor)) * dtype.itemsize).view(dtype)
        return torch.as_strided(flat, tensor["shape"], tensor["strides"])

    def _addresses(self) -> tuple[int, int]:
        """Where the arena lies."""
        start = self._arena.data_ptr()
        return start, start + self._arena.numel()

    def _region(self, offset: int, size: int) -> Any:
        return self._arena[offset : offset + size]

    def _copy_out(self, result: Any, regions: list[dict[str, int]]) -> list[dict[str, Any]]:
        """Describe each output, and copy those that are dense tensors of the exact type and fit."""
        import torch

        values = result if isinstance(result, tuple) and len(regions) > 1 else (result,)
        described: list[dict[str, Any]] = []
        for value, region in zip(values, [*regions, *[None] * len(values)], strict=False):
            # The exact type: a subclass could compute when it is read, after the call has returned.
            if type(value) is not torch.Tensor or value.layout is not torch.strided:
                exact = type(value) is torch.Tensor
                described.append({"type": f"a Tensor of layout {value.layout}" if exact else type_name(value)})
                continue
            fact = {"type": "Tensor", "shape": list(value.shape)[:16], "dtype": str(value.dtype).removeprefix("torch."),
                    "device": value.device.type}  # fmt: skip
            size = value.numel() * value.element_size()
            here = value.device.type == self._backend.DEVICE  # there is nothing to copy of a meta tensor
            if here:
                fact["stored"] = self._backend.stored_elements(value)
            if region is not None and here and 0 < size <= region["bytes"]:
                target = self._region(region["offset"], size).view(value.dtype)
                target.view(value.shape).copy_(value.detach())
            described.append(fact)
        return described


def serve(channel: socket.socket, arena_fd: int, arena_size: int) -> None:
    """Answer the judge's messages until it closes the channel."""
    worker = Worker(channel, arena_fd, arena_size)
    actions = {
        "load": worker.load,
        "call": worker.call,
        "compile": worker.compile,
        "measure": worker.measure,
        "prepare_round": worker.prepare_round,
        "run_round": worker.run_round,
        "fetch_round": worker.fetch_round,
    }
    prepared = False  # what comes next is then timed
    while (received := protocol.receive(channel, worker.decoder, max_fds=1, spin=prepared)) is not None:
        message, fds = received
        prepared = message["kind"] == "prepare_round"
        reply = worker.attach(message, fds) if message["kind"] == "attach" else actions[message["kind"]](message)
        worker.end_if_forked()
        sys.stdout.flush()
        sys.stderr.flush()
        protocol.send(channel, {"id": message["id"], **reply})


def _children() -> int:
    """Processes that this one has started and that have not ended."""
    found = 0
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += len(path.read_text().split())
    return found


def _reach(tensor: dict[str, Any]) -> int:
    """Elements between the first and the last element of a view."""
    return sum((size - 1) * stride for size, stride in zip(tensor["shape"], tensor["strides"], strict=True))


def _zeros(tensor: dict[str, Any]) -> Any:
    """A tensor of this form that is not in the arena."""
    import torch

    storage = torch.zeros(1 + _reach(tensor), dtype=getattr(torch, tensor["dtype"]))
    return torch.as_strided(storage, tensor["shape"], tensor["strides"])


def _shapes(tensor: dict[str, Any]) -> Any:
    """A tensor of this form without memory."""
    import torch

    dtype = getattr(torch, tensor["dtype"])
    return torch.empty_strided(tensor["shape"], tensor["strides"], dtype=dtype, device="meta")


def _within_a_frame(kernels: list[Any]) -> list[dict[str, Any]]:
    """The records as a reply holds them: PTX is left out once there is too much of it."""
    found, left = [], protocol.MAX_FRAME_BYTES // 2
    for kernel in kernels:
        facts = _cut(asdict(kernel))
        if facts["details"]:
            left -= len(facts["details"]["ptx"])
            if left < 0:
                facts["details"]["ptx"] = ""
        found.append(facts)
    return found


def _cut(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: value[:MAX_TEXT] if isinstance(value, str) else value for name, value in facts.items()}
