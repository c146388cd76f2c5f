"""Computes the addresses that the threads of one warp access, by running a kernel's integer arithmetic. Pure.

The instructions are taken once, in the order of the text, for the 32 lanes of the first warp of block 0, with the
launch's own integers as parameters. That gives each address as the first pass through a loop has it; what depends on
loaded values, or on an instruction that isn't known here, stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from .ptx import Access, Instruction, Program

Lanes = NDArray[np.int64]

WARP_SIZE = 32
SECTOR_BYTES = 32  # what global memory moves at least
BANKS = 32
BANK_BYTES = 4
_POINTER_SPACING = 1 << 40  # between the tensors that parameters point to: they never overlap
_ADDRESS = re.compile(r"\[\s*(%\w+|\w+)?\s*\+?\s*(-?\w+)?\s*\]")
_SPECIAL = {"%tid.x": np.arange(WARP_SIZE), "%laneid": np.arange(WARP_SIZE)}
_ZERO = ("%tid.y", "%tid.z", "%ctaid.x", "%ctaid.y", "%ctaid.z", "%cluster_ctarank", "%cluster_ctaid.x")
_COMPARE: Mapping[str, Callable[[Lanes, Lanes], NDArray[np.bool_]]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip


@dataclass(frozen=True)
class Pattern:
    """How a warp's access falls on memory.

    For global memory `units` counts the 32-byte sectors that one request touches and `least` those that would hold its
    bytes; for shared memory, the passes over the banks that it takes and the passes that its bytes need.
    """

    access: Access
    units: int
    least: int

    @property
    def clean(self) -> bool:
        """Whether it takes no more than it must, but for one sector where the address isn't aligned."""
        return self.units <= self.least + (self.access.space == "global")


def patterns(program: Program, arguments: Sequence[object]) -> list[Pattern]:
    """The pattern of every access whose addresses can be told; `arguments` are as the worker's details have them."""
    registers = _Registers(program, arguments)
    by_instruction: dict[int, list[Access]] = {}
    for access in program.accesses:
        by_instruction.setdefault(id(access.instruction), []).append(access)
    found: list[Pattern] = []
    for instruction in program.instructions:
        told = (_pattern(access, registers) for access in by_instruction.get(id(instruction), ()))
        found += [pattern for pattern in told if pattern is not None]
        registers.run(instruction)
    return found


def _pattern(access: Access, registers: _Registers) -> Pattern | None:
    addresses = registers.address(access.address)
    active = registers.active(access.instruction)
    if addresses is None or active is None or not access.bytes:
        return None
    addresses = addresses[active]
    if not addresses.size:
        return None
    if access.space == "global":
        steps = np.arange(0, access.bytes, min(access.bytes, BANK_BYTES))
        touched = (addresses[:, None] + steps) // min(access.bytes, BANK_BYTES)
        moved = np.unique(touched).size * min(access.bytes, BANK_BYTES)
        sectors = np.unique((addresses[:, None] + steps) // SECTOR_BYTES).size
        return Pattern(access, sectors, ceil(moved / SECTOR_BYTES))
    return Pattern(access, *_bank_passes(addresses[: access.rows or None], access.bytes))


def _bank_passes(addresses: Lanes, size: int) -> tuple[int, int]:
    """Passes that an access takes and that it needs: lanes go in groups that can move 128 bytes at once."""
    group = max(1, WARP_SIZE * BANK_BYTES // max(size, BANK_BYTES))
    passes = groups = 0
    for start in range(0, len(addresses), group):
        words = np.unique(
            (addresses[start : start + group, None] + np.arange(0, max(size, 1), BANK_BYTES)) // BANK_BYTES
        )
        passes += int(np.bincount(words % BANKS).max())
        groups += 1
    return passes, groups


class _Registers:
    """Values of registers in all lanes; an absent one is unknown."""

    def __init__(self, program: Program, arguments: Sequence[object]) -> None:
        self._values: dict[str, Lanes] = {name: lanes.astype(np.int64) for name, lanes in _SPECIAL.items()}
        self._values |= {name: _all(0) for name in _ZERO}
        self._parameters: dict[str, Lanes] = {}
        given = list(arguments) + [None] * len(program.parameters)
        for number, ((name, kind), value) in enumerate(zip(program.parameters, given, strict=False)):
            if (kind.endswith("]") or (value == "pointer" and kind != "u64")) and value is not None:
                break  # these are arguments of another kernel
            if value == "pointer":
                self._parameters[name] = _all((number + 1) * _POINTER_SPACING)
            elif isinstance(value, int):
                self._parameters[name] = _all(_signed(value))

    def address(self, operand: str) -> Lanes | None:
        """The value of `[%register + offset]` or `[symbol + offset]`."""
        found = _ADDRESS.fullmatch(operand)
        if found is None:
            return None
        base = self._value(found[1] or "0")
        try:
            return None if base is None else base + _signed(int(found[2] or "0", 0))
        except ValueError:
            return None

    def active(self, instruction: Instruction) -> NDArray[np.bool_] | None:
        """The lanes in which the instruction runs; all of them where its predicate is unknown."""
        if not instruction.predicate:
            return np.ones(WARP_SIZE, dtype=bool)
        value = self._values.get(instruction.predicate)
        if value is None:
            return np.ones(WARP_SIZE, dtype=bool)
        wanted: NDArray[np.bool_] = (value == 0) if instruction.negated else (value != 0)
        return wanted

    def run(self, instruction: Instruction) -> None:
        """Take an instruction's effect on its first operand."""
        if not instruction.operands:
            return
        target, *sources = instruction.operands
        if target.startswith("{"):
            for register in re.findall(r"%\w+", target):
                self._values.pop(register, None)
            return
        if not target.startswith("%"):
            return
        result = self._result(instruction.opcode, sources)
        if result is None:
            self._values.pop(target, None)
        elif instruction.predicate:
            active, before = self.active(instruction), self._values.get(target, result)
            self._values[target] = np.where(active, result, before)  # type: ignore[arg-type]
        else:
            self._values[target] = result

    def _value(self, operand: str) -> Lanes | None:
        if operand in self._values:
            return self._values[operand]
        if operand.startswith("%"):
            return None
        if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)U?", operand):
            return _all(_signed(int(operand.rstrip("U"), 0)))
        return _all(0) if re.fullmatch(r"[a-z_]\w*smem\w*", operand) else None  # the start of shared memory

    def _result(self, opcode: str, sources: list[str]) -> Lanes | None:
        name, *modifiers = opcode.split(".")
        if name == "ld":
            found = re.fullmatch(r"\[(\w+)\]", sources[0]) if "param" in modifiers and sources else None
            return self._parameters.get(found[1]) if found else None
        if any(modifier.startswith(("f16", "f32", "f64", "bf16")) for modifier in modifiers):
            return None
        values = [self._value(source) for source in sources]
        if any(value is None for value in values):
            return None
        with np.errstate(over="ignore"):
            result = _compute(name, modifiers, [value for value in values if value is not None])
        return None if result is None else _wrap(result, name, modifiers)


def _compute(name: str, modifiers: list[str], v: list[Lanes]) -> Lanes | None:
    match name, v:
        case ("mov" | "cvta", [a]):
            return a
        case "cvt", [a]:
            return _as_type(a, modifiers[-1])
        case "add", [a, b]:
            return a + b
        case "sub", [a, b]:
            return a - b
        case "mul", [a, b] if "hi" not in modifiers:
            return _wide(a, modifiers) * _wide(b, modifiers)
        case "mad", [a, b, c] if "hi" not in modifiers:
            return _wide(a, modifiers) * _wide(b, modifiers) + c
        case "shl", [a, b]:
            return np.where(b < 64, a << np.minimum(b, 63), 0)
        case "shr", [a, b]:
            return _as_type(a, modifiers[-1]) >> np.minimum(b, 63)
        case "and", [a, b]:
            return a & b
        case "or", [a, b]:
            return a | b
        case "xor", [a, b]:
            return a ^ b
        case "not", [a]:
            return (a == 0).astype(np.int64) if "pred" in modifiers else ~a
        case "neg", [a]:
            return -a
        case "min", [a, b]:
            return np.minimum(a, b)
        case "max", [a, b]:
            return np.maximum(a, b)
        case "div", [a, b] if (b > 0).all() and (a >= 0).all():
            return a // b
        case "rem", [a, b] if (b > 0).all() and (a >= 0).all():
            return a % b
        case "bfe", [a, b, c] if modifiers[-1].startswith("u"):
            return (_as_type(a, modifiers[-1]) >> b) & ((1 << c) - 1)
        case "bfe", [a, b, c] if (c == 1).all():
            return -((a >> b) & 1)  # the sign bit is the field
        case "setp", [a, b] if modifiers[0] in _COMPARE and len(modifiers) == 2:
            kind = modifiers[-1]
            return _COMPARE[modifiers[0]](_as_type(a, kind), _as_type(b, kind)).astype(np.int64)
        case "selp", [a, b, p]:
            return np.where(p != 0, a, b)
        case "shfl", [a, lane, _, _] if "idx" in modifiers and (lane == lane[0]).all():
            return _all(int(a[int(lane[0]) % WARP_SIZE]))
    return None


def _wide(value: Lanes, modifiers: list[str]) -> Lanes:
    return _as_type(value, modifiers[-1]) if "wide" in modifiers else value


def _as_type(value: Lanes, kind: str) -> Lanes:
    """The value as an operand of this type reads it: `u32` without sign, `s32` and `b32` with."""
    bits = _bits(kind)
    if bits >= 64:
        return value
    low = value & ((1 << bits) - 1)
    return low if kind.startswith("u") else (low ^ (1 << (bits - 1))) - (1 << (bits - 1))


def _wrap(value: Lanes, name: str, modifiers: list[str]) -> Lanes:
    if name == "setp" or "pred" in modifiers:
        return value
    kind = modifiers[0] if name == "cvt" else modifiers[-1]
    bits = _bits(kind) * (2 if "wide" in modifiers else 1)
    if bits >= 64:
        return value
    return _as_type(value, f"u{bits}" if name == "cvt" and kind.startswith("u") else f"s{bits}")


def _bits(kind: str) -> int:
    found = re.fullmatch(r"[bsu](8|16|32|64)", kind)
    return int(found[1]) if found else 64


def _signed(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _all(value: int) -> Lanes:
    return np.full(WARP_SIZE, value, dtype=np.int64)
