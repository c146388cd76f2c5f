"""What `grader inspect` found, for a terminal: a table a benchmark, advice, and PTX with what each line of it does."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..advice import advice
from ..inspection import Failure, Inspected, KernelFacts
from ..ptx import Access, Instruction
from ..ptx_lanes import Pattern

_HEADINGS = (
    "  GPU", "regs", "spills", "shared", "blocks/SM", "limited by", "warps", "waves", "last idle", "loads/stores",
    "tensor", "copies",
)  # fmt: skip
_WORDS = ("  GPU", "limited by", "loads/stores", "tensor", "copies")
WIDTH = 118
_NOTES = {
    "wgmma.mma_async": "tensor cores (Hopper)",
    "tcgen05.mma": "tensor cores (Blackwell)",
    "mma.sync": "tensor cores",
    "cp.async.bulk.tensor": "TMA: the copy engine moves a whole tile",
    "bar.sync": "waits for every warp of the block",
    "ldmatrix": "8×8 matrices from shared memory to the tensor cores' layout",
    "stmatrix": "8×8 matrices from the tensor cores' layout to shared memory",
    "shfl.sync": "exchanges values within a warp",
    "ex2.approx": "exponential, in hardware",
    "atom.": "atomic",
    "red.": "atomic",
}


def show(console: Console, inspected: Sequence[Inspected], failures: Sequence[Failure], *, ptx: bool) -> None:
    """Print a table for each benchmark, the advice, and with `ptx` an excerpt for each kernel."""
    for (exercise, benchmark), group in itertools.groupby(inspected, lambda e: (e.facts.exercise, e.facts.benchmark)):
        console.print(Text(f"{exercise} {benchmark}", style="bold"))
        for _, of_kernel in itertools.groupby(group, lambda e: _title(e.facts)):
            kernels = list(of_kernel)
            console.print(Text(f"  {_title(kernels[0].facts)}"))
            console.print(_table([each.facts for each in kernels]))
            for line in _remarks([each.facts for each in kernels]):
                console.print(Text(textwrap.fill(line, WIDTH, initial_indent="  • ", subsequent_indent="    ")))
            for text, alike in _alike(kernels).items() if ptx else ():
                console.print(Text(f"\n  PTX for {', '.join(alike)}", style="bold"))
                console.print(Text(text), soft_wrap=True)
            console.print()
    for (name, status, message), same in itertools.groupby(failures, lambda e: (e.exercise, e.status, e.message)):
        gpus = ", ".join(dict.fromkeys(each.gpu for each in same))
        console.print(Text(f"{name}: {status}: {message} (for {gpus})", style="red"))


def _alike(kernels: Sequence[Inspected]) -> dict[str, list[str]]:
    """The excerpts with the GPUs that they are the same for."""
    found: dict[str, list[str]] = {}
    for each in kernels:
        found.setdefault("\n".join(excerpt(each)), []).append(each.facts.gpu)
    return found


def _table(kernels: Sequence[KernelFacts]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in _HEADINGS:
        table.add_column(heading, justify="left" if heading in _WORDS else "right", no_wrap=True)
    for facts in kernels:
        cells = ["not compiled"] if facts.registers is None else _cells(facts)
        table.add_row(Text(f"  {facts.gpu}"), *map(Text, cells))
    return table


def _cells(facts: KernelFacts) -> Iterator[str]:
    yield str(facts.registers)
    yield "?" if facts.spills is None else str(facts.spills)
    yield f"{facts.shared_bytes / 1024:.1f} KiB" if facts.shared_bytes >= 1024 else f"{facts.shared_bytes} B"
    yield "?" if facts.blocks_per_multiprocessor is None else str(facts.blocks_per_multiprocessor)
    yield facts.limited_by.replace(" memory", "").replace("registers", "regs")
    yield "?" if facts.occupancy is None else f"{facts.occupancy:.0%}"
    yield "?" if facts.waves is None else f"{facts.waves:.2f}"
    yield "?" if facts.last_wave_idle is None else f"{facts.last_wave_idle:.0%}"
    yield f"{facts.load_bytes or '–'}/{facts.store_bytes or '–'} B {_coalescing(facts)}"
    yield ", ".join(facts.tensor_cores) or ("no" if facts.dots else "–")
    yield ", ".join(facts.copies) or "–"


def _coalescing(facts: KernelFacts) -> str:
    if any(access.wasteful for access in facts.global_accesses):
        return "scattered"
    if not facts.global_accesses and not facts.accesses_told:
        return "unknown"
    return "coalesced" if facts.global_accesses else ""


def _title(facts: KernelFacts) -> str:
    """The kernel with its configuration, if it is autotuned, or the constants it was launched with."""
    options = ", ".join(f"{name}={value}" for name, value in facts.constants.items())
    if facts.config:
        options = facts.config.replace(", num_ctas=1", "")
    elif facts.num_warps:
        options += f"{', ' if options else ''}num_warps={facts.num_warps}"
    return f"{facts.kernel} ({options})" if options else facts.kernel


def _remarks(kernels: Sequence[KernelFacts]) -> Iterator[str]:
    """Errors, notes and advice on a kernel, each once with the GPUs that it holds for."""
    said: dict[str, list[str]] = {}
    for facts in kernels:
        remarks = [f"{facts.place}: {facts.error}"] if facts.error else advice(facts)
        for remark in [*([facts.note] if facts.note else []), *remarks]:
            said.setdefault(remark, []).append(facts.gpu)
    for remark, gpus in said.items():
        yield f"{'' if len(gpus) == len(kernels) else ', '.join(gpus) + ': '}{remark}"


def excerpt(inspected: Inspected) -> Iterator[str]:
    """The instructions worth looking at, under the source line that they were made for, each with what it does."""
    told = {id(each.access.instruction): each for each in reversed(inspected.patterns)}
    accesses = {id(each.instruction): each for each in reversed(inspected.program.accesses)}
    place = None
    notable = [each for each in inspected.program.instructions if _note(each, accesses, told)]
    # Runs of the same instruction, as an unrolled loop makes them, are one line.
    for (file, line, opcode, note), run in itertools.groupby(
        notable, lambda each: (each.file, each.line, each.opcode, _note(each, accesses, told))
    ):
        if (file, line) != place:
            place = (file, line)
            code = inspected.source[line - 1].strip() if 0 < line <= len(inspected.source) else ""
            yield f"  {file}:{line}  {code}" if line else "  (no line)"
        same = list(run)
        times = f"{len(same)} × " if len(same) > 1 else ""
        yield f"      {_short(same[0].text if len(same) == 1 else opcode):<60} // {times}{note}"


def _note(instruction: Instruction, accesses: dict[int, Access], told: dict[int, Pattern]) -> str:
    note = next((note for start, note in _NOTES.items() if instruction.opcode.startswith(start)), "")
    access = accesses.get(id(instruction))
    if access is None:
        return note
    if "cp.async" in instruction.opcode:
        note = "to shared memory past the registers"
    note = note or f"{access.space} {'store' if access.store else 'load'}"
    note += f", {access.bytes} bytes a thread"
    pattern = told.get(id(instruction))
    if pattern is None:
        return note
    unit = "sectors of 32 bytes" if pattern.access.space == "global" else "passes over the banks"
    if not pattern.clean:
        return f"{note}, {pattern.units} {unit} a warp where {pattern.least} would do"
    return f"{note}, {'coalesced' if pattern.access.space == 'global' else 'no bank conflicts'}"


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "…"
