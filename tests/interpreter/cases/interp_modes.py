"""Runs every launch of the cases both ways: program by program and together must leave the same behind.

A launch of one program has nothing to run together with, so it gets a twin: the same kernel on other values, at other
addresses, which then run as two programs at once.
"""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from grader.worker.interpreter import batching, launch, state
from grader.worker.interpreter.programs import Diverged, Programs, Refused, TooWide
from grader.worker.interpreter.tensors import make
from grader.worker.interpreter.together import Together

original_launch = launch._launch
original_convert = launch.convert_argument
log = []  # of (kind, Outcome)
active = [True]


def tensors_of(values):
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, TensorDescriptor):
            yield value.base
        elif isinstance(value, (tuple, list)):
            yield from tensors_of(value)
        elif isinstance(getattr(value, "base", None), torch.Tensor):
            yield value.base


class Everything:
    """All that a launch may change, to compare and to put back."""

    def __init__(self, session, args, kwargs):
        self.session = session
        tensors = [*tensors_of(args), *tensors_of(kwargs.values())]
        tensors += [region.owner for region in session.memory.regions.asked]
        self.storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in tensors}
        self.config = session.config, session.num_configs
        self.before = self.now()

    def now(self):
        memory = self.session.memory
        regions = [region for region in [*memory.regions.tagged, *memory.regions.asked] if region]
        return {
            "bytes": {key: storage.clone() for key, storage in self.storages.items()},
            "record": copy.deepcopy(vars(self.session.record)),
            "maps": {
                (region.tag, region.key, kind): None if getattr(region, kind) is None else getattr(region, kind).copy()
                for region in regions
                for kind in ("loaded", "stored")
            },
        }  # fmt: skip

    def put_back(self):
        for key, storage in self.storages.items():
            storage.copy_(self.before["bytes"][key])
        vars(self.session.record).update(copy.deepcopy(self.before["record"]))
        memory = self.session.memory
        for region in [*memory.regions.tagged, *memory.regions.asked]:
            if region:
                for kind in ("loaded", "stored"):
                    setattr(region, kind, self.before["maps"].get((region.tag, region.key, kind)))
                    if getattr(region, kind) is not None:
                        setattr(region, kind, getattr(region, kind).copy())
        self.session.config, self.session.num_configs = self.config


def as_bytes(storage):
    return torch.tensor([], dtype=torch.uint8).set_(storage)


def differences(left, right):
    found = [
        f"memory at {key:#x}"
        for key, storage in left["bytes"].items()
        if not torch.equal(as_bytes(storage), as_bytes(right["bytes"][key]))
    ]
    found += [
        f"{name}: {value!r} one by one, {right['record'][name]!r} together"
        for name, value in left["record"].items()
        if dataclass_free(value) != dataclass_free(right["record"][name])
    ]
    found += [
        f"touched elements {key}"
        for key, seen in left["maps"].items()
        if not np.array_equal(unseen(seen), unseen(right["maps"][key]))
    ]
    return found


def unseen(seen):
    return np.zeros(0) if seen is None or not seen.any() else seen


def dataclass_free(value):
    if isinstance(value, list):
        return [dataclasses.asdict(item) if dataclasses.is_dataclass(item) else item for item in value]
    return value


def attempt(session, batch, *launched):
    session.options = dataclasses.replace(session.options, batch=batch)
    try:
        original_launch(session, *launched)
    except (Exception, state.Unsupported) as problem:  # noqa: BLE001 - whatever it is, both ways must meet it
        return problem
    return None


def both(session, function, grid, args, kwargs):
    if not active[0]:
        original_launch(session, function, grid, args, kwargs)
        return
    options = session.options
    everything = Everything(session, args, kwargs)
    problem = attempt(session, False, function, grid, args, kwargs)
    alone = everything.now()
    everything.put_back()
    length = len(batching.history)
    other = attempt(session, True, function, grid, args, kwargs)
    session.options = options
    if len(batching.history) > length:
        log.append(("launch", batching.history[-1]))
    assert (type(problem), str(problem)) == (type(other), str(other)), (problem, other)
    found = differences(alone, everything.now())
    assert not found, (function.fn.__name__, found)
    single = len(batching.history) > length and batching.history[-1].programs == 1
    if single and problem is None and options.memory_check and not alone["record"]["faults"]:
        result = everything.now()
        config = session.config, session.num_configs
        twin(session, everything, function, args, kwargs)
        everything.before = result
        everything.put_back()
        session.config, session.num_configs = config
    if other is not None:
        raise other


# ---------------------------------------------------------------- twins


def span(tensor):
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def twin(session, everything, function, args, kwargs):
    """The kernel on the arguments and on a variation of them, each alone and then together."""
    everything.put_back()
    plain = [*args, *kwargs.values()]
    found = [value for value in plain if isinstance(value, torch.Tensor)]
    apart = len({tensor.untyped_storage().data_ptr() for tensor in found}) == len(found)
    if not apart or len(found) != len([*tensors_of(plain)]) or any(not tensor.numel() for tensor in found):
        return
    pairs = {}
    for tensor in found:
        memory = torch.as_strided(tensor, (span(tensor),), (1,))
        # A multiple of 16 bytes apart, as descriptors need it.
        room = -(-memory.numel() // 16) * 16
        joint = torch.zeros(2 * room, dtype=tensor.dtype)
        joint[: memory.numel()] = memory
        integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
        joint.view(integers)[room : room + memory.numel()] = memory.view(integers).flip(0)
        pairs[id(tensor)] = (tensor, joint, room, memory.numel())

    def pick(value, which):
        if isinstance(value, torch.Tensor):
            return torch.as_strided(halves[id(value)][which], value.shape, value.stride())
        return value

    halves = {key: (joint[:n].clone(), joint[room : room + n].clone()) for key, (_, joint, room, n) in pairs.items()}
    for which in (0, 1):
        own_args = [pick(value, which) for value in args]
        own_kwargs = {name: pick(value, which) for name, value in kwargs.items()}
        with launch.record(dataclasses.replace(session.options, batch=False)) as record:
            try:
                original_launch(state.current.session, function, (1,), tuple(own_args), own_kwargs)
            except Exception:  # noqa: BLE001 - the variation isn't valid input: nothing to compare
                return
        if record.faults or record.unsupported:
            return

    def joined(name, value, annotation=""):
        if isinstance(value, torch.Tensor) and id(value) in pairs:
            _, joint, room, _ = pairs[id(value)]
            made = original_convert(name, value, annotation)
            whole = original_convert(name, joint, annotation)
            step = np.array([0, room * joint.element_size()], dtype=np.uint64)
            return make(whole.handle.data + step, made.layout, spread=True)
        return original_convert(name, value, annotation)

    outcome = batching.Outcome(function.fn.__name__, 2)

    def run(inner, kernel, sizes, values):
        memory = inner.memory
        memory.together = Together(memory)
        memory.programs = Programs(np.arange(2), (1, 1, 1))
        memory.programs.ids = [np.zeros(2, dtype=np.int32)] * 3
        try:
            inner.body()
            outcome.together = 2
        except (Exception, Refused, Diverged, TooWide) as problem:  # noqa: BLE001 - what the loop would meet again
            memory.together.undo()
            outcome.reason = getattr(problem, "reason", repr(problem))
        finally:
            memory.together = memory.programs = None
        return sizes[0] * sizes[1] * sizes[2]

    before = launch.convert_argument, batching.run
    launch.convert_argument, batching.run = joined, run
    try:
        with launch.record(session.options):
            original_launch(state.current.session, function, (1,), args, kwargs)
    finally:
        launch.convert_argument, batching.run = before
    log.append(("twin", outcome))
    if outcome.together:
        for tensor, joint, room, n in pairs.values():
            for which, part in enumerate((joint[:n], joint[room : room + n])):
                expected = halves[id(tensor)][which]
                assert torch.equal(part.contiguous().view(torch.uint8), expected.contiguous().view(torch.uint8)), (
                    f"{function.fn.__name__}: twin {which} differs together"
                )


def table():
    """What became of the launches, and why those that ran alone did."""
    rows = {}
    for kind, outcome in log:
        end = "together" if outcome.together == outcome.programs else outcome.reason
        row = rows.setdefault((kind, outcome.kernel, end), [0, 0, 0])
        for i, value in enumerate((1, outcome.programs, outcome.runs)):
            row[i] += value
    lines = [
        f"{kind:8}{kernel:32}{times:6}{programs:9}{runs:6}  {end}"
        for (kind, kernel, end), (times, programs, runs) in sorted(rows.items())
    ]
    return "\n".join([f"{'':8}{'kernel':32}{'times':>6}{'programs':>9}{'runs':>6}", *lines])


def install():
    launch._launch = both
