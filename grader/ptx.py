"""Reads PTX as Triton's compiler writes it: instructions with their source line, memory accesses, tensor cores. Pure.

The text comes from the untrusted side, so everything here takes any text and is bounded by its length.
(PTX ISA 8.7, "Instruction Set".)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"([^"]*)"')
_LOCATION = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\s+\d+(?:\s*//\s*(\S+?):(\d+):\d+(.*))?")
_OUTERMOST = re.compile(r"([\w.\-]+\.py):(\d+):\d+(?:\s*\])*\s*$")
_STATEMENT = re.compile(r"\s*(?:@(!?)(%\w+)\s+)?([a-z][\w.:]*)\s*([^;]*);")
_PARAMETER = re.compile(r"\s*\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+.*?(\w+_param_\d+)(\[\d+\])?,?\s*$")
_OPERANDS = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*")
_WIDTH = re.compile(r"\.[busf](\d+)$")
_VECTOR = re.compile(r"\.v(\d)\b")
_COPY = re.compile(r"cp\.async\.c[ag]\.shared\.global")
_MATRIX = re.compile(r"(?:ld|st)matrix\..*\.x(\d)\b")
_TENSOR_CORES = (
    ("wgmma", re.compile(r"wgmma\.mma_async\b")),
    ("tcgen05", re.compile(r"tcgen05\.mma\b")),
    ("mma.sync", re.compile(r"w?mma\.(?:sync|mma\.sync)\b")),
)


@dataclass(frozen=True)
class Instruction:
    """One statement; `file` and `line` are the submission's line it was made for, "" and 0 where none is told."""

    opcode: str
    operands: tuple[str, ...]
    predicate: str  # a register, "" without one
    negated: bool
    file: str
    line: int
    text: str


@dataclass(frozen=True)
class Access:
    """What an instruction does to memory: `space` is "global" or "shared", `bytes` are those of one thread.

    An asynchronous copy is two accesses, a global load and a shared store. `rows` marks the instructions that move
    8×8 matrices, where each thread gives the address of one row of 16 bytes.
    """

    instruction: Instruction
    space: str
    store: bool
    bytes: int
    address: str  # the operand
    rows: int = 0

    @property
    def place(self) -> str:
        """`file:line`, "" where it isn't told."""
        where = self.instruction
        return f"{where.file}:{where.line}" if where.line else ""


@dataclass(frozen=True)
class Program:
    """A kernel's PTX: its instructions in the order of the text, and its parameters with their types."""

    instructions: tuple[Instruction, ...]
    parameters: tuple[tuple[str, str], ...]  # (name, type); an array's type is "b8[]"

    @property
    def accesses(self) -> list[Access]:
        """Every access to global and shared memory by threads."""
        return [access for instruction in self.instructions for access in _accesses(instruction)]

    @property
    def tensor_cores(self) -> list[str]:
        """The families of tensor-core instructions in it."""
        return [name for name, pattern in _TENSOR_CORES if self._has(pattern)]

    @property
    def copies(self) -> list[str]:
        """How it copies to shared memory past the registers: "cp.async", "TMA"."""
        found = ["cp.async"] if self._has(_COPY) else []
        return found + ["TMA"] * self._has(re.compile(r"cp\.async\.bulk\.tensor"))

    def _has(self, pattern: re.Pattern[str]) -> bool:
        return any(pattern.match(instruction.opcode) for instruction in self.instructions)


def parse(text: str, own_file: str = "") -> Program:
    """Read a kernel. Lines of `own_file` win where code was inlined from another file into it."""
    instructions: list[Instruction] = []
    parameters: list[tuple[str, str]] = []
    files: dict[str, str] = {number: name.rpartition("/")[2] for number, name in _FILE.findall(text)}
    file, line = "", 0
    for each in text.splitlines():
        if found := _LOCATION.match(each):
            file, line = _place(found, files, own_file)
        elif found := _PARAMETER.match(each):
            parameters.append((found[2], found[1] + ("[]" if found[3] else "")))
        else:
            code = each.partition("//")[0]
            for negated, predicate, opcode, rest in _STATEMENT.findall(code):
                operands = tuple(part.strip() for part in _OPERANDS.findall(rest))
                instructions.append(
                    Instruction(opcode, operands, predicate, bool(negated), file, line, f"{opcode} {rest.strip()}")
                )
    return Program(tuple(instructions), tuple(parameters))


def _place(found: re.Match[str], files: dict[str, str], own_file: str) -> tuple[str, int]:
    file, line = found[3] or files.get(found[1], ""), int(found[2])
    # `standard.py:191:40 @[ softmax.py:32:34 ]`: the submission's line is the outermost.
    outer = _OUTERMOST.search(found[5] or "")
    if file != own_file and outer and own_file in ("", outer[1]):
        return outer[1], int(outer[2])
    return file, line


def _accesses(instruction: Instruction) -> Iterator[Access]:
    opcode, operands = instruction.opcode, instruction.operands
    addresses = [operand for operand in operands if operand.startswith("[")]
    if not addresses:
        return
    if _COPY.match(opcode) and len(addresses) == 2:
        size = _number(operands[2]) if len(operands) > 2 else 0
        yield Access(instruction, "global", False, size, addresses[1])
        yield Access(instruction, "shared", True, size, addresses[0])
    elif matrices := _MATRIX.match(opcode):
        yield Access(instruction, "shared", opcode.startswith("st"), 16, addresses[0], 8 * int(matrices[1]))
    elif opcode.startswith(("ld.", "st.")) and (space := _space(opcode)):
        yield Access(instruction, space, opcode.startswith("st."), _bytes(opcode), addresses[0])


def _space(opcode: str) -> str:
    parts = opcode.split(".")
    return next((space for space in ("global", "shared") if any(p.split("::")[0] == space for p in parts)), "")


def _bytes(opcode: str) -> int:
    width, vector = _WIDTH.search(opcode), _VECTOR.search(opcode)
    return int(width[1]) // 8 * (int(vector[1]) if vector else 1) if width else 0


def _number(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        return 0


def widest(accesses: Sequence[Access], *, store: bool) -> int:
    """The most bytes that a thread moves to or from global memory in one instruction; 0 where it moves none."""
    return max((each.bytes for each in accesses if each.space == "global" and each.store == store), default=0)
