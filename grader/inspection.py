"""Trusted side: what the compiler made of a submission's kernels at the benchmark's sizes, for GPUs that need not be
there. Awards no points: what the worker says is shown, not judged.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import prod
from typing import Literal

from pydantic import BaseModel, ConfigDict

import reference
from reference.exercise import Case

from .compiles import request_compilation
from .hardware import GPUS
from .items import benchmark_case
from .judge import Caller, Target
from .machine import Machine
from .occupancy import ARCHITECTURES, occupancy, waves
from .ptx import Access, Program, parse, widest
from .ptx_lanes import Pattern, patterns
from .reply import CompiledKernel
from .rubric import Rubric
from .submission import Submission
from .verdict import Verdict

DEFAULT_GPUS = ("A100", "H100", "H200", "B200")


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True)


class AccessFacts(_Facts):
    """Accesses of one line that fall on memory in the same way; `ptx_lanes.Pattern` says what the units are."""

    place: str
    store: bool
    bytes: int  # of one thread
    units: int
    least: int
    count: int  # instructions

    @property
    def wasteful(self) -> bool:
        """Whether it takes twice what it would have to, or more."""
        return self.units >= 2 * self.least and self.units > self.least + 1


class KernelFacts(_Facts):
    """One kernel in one configuration on one GPU. Registers, spills (32-bit words) and stack are per thread."""

    exercise: str
    benchmark: str
    gpu: str
    target: int
    multiprocessors: int
    kernel: str
    config: str | None
    constants: dict[str, bool | int | float | str]
    place: str
    error: str
    note: str
    num_warps: int
    num_stages: int | None
    grid: list[int]  # empty where it isn't known
    registers: int | None
    spills: int | None
    stack_bytes: int | None
    shared_bytes: int
    tensor_memory_columns: int
    blocks_per_multiprocessor: int | None
    limited_by: str
    occupancy: float | None  # of the warps that a multiprocessor could hold
    waves: float | None
    last_wave_idle: float | None
    lost: float | None  # the share of the run that the idle part of the last wave takes
    load_bytes: int  # the widest, of one thread
    store_bytes: int
    accesses_told: bool  # whether every global access's addresses could be worked out
    global_accesses: list[AccessFacts]
    shared_accesses: list[AccessFacts]
    tensor_cores: list[str]
    dots: int
    copies: list[str]


class Failure(_Facts):
    """An exercise of which nothing can be said, and why."""

    exercise: str
    benchmark: str
    gpu: str
    status: str
    message: str


class Inspection(_Facts):
    """Everything that was found, for `--json`."""

    version: Literal["grader.inspection/1"] = "grader.inspection/1"
    submission: str
    versions: dict[str, str]
    kernels: list[KernelFacts]
    failures: list[Failure]


@dataclass(frozen=True)
class Inspected:
    """The facts of a kernel with the PTX they were read from, and the source that its lines refer to."""

    facts: KernelFacts
    program: Program
    patterns: Sequence[Pattern] = field(repr=False)
    source: Sequence[str] = field(repr=False)


@dataclass(frozen=True)
class Inspector:
    """Inspects exercises of a submission. `max_configs` of each autotuned launch are compiled."""

    rubric: Rubric
    submission: Submission
    machine: Machine
    gpus: Sequence[str] = DEFAULT_GPUS
    max_configs: int = 1

    def run(self, exercises: Sequence[str]) -> tuple[list[Inspected], list[Failure]]:
        """Compile what each benchmark launches. In the order of exercises, benchmarks, kernels, GPUs."""
        # GPUs that a kernel can't tell apart are compiled for once.
        chips = list(dict.fromkeys((GPUS[gpu].target, GPUS[gpu].multiprocessors) for gpu in self.gpus))
        work = [(exercise, chip) for exercise in exercises for chip in chips]
        with ThreadPoolExecutor(max_workers=max(2, min(4, os.cpu_count() or 2))) as pool:
            # The last first: exercises later in a rubric have the larger kernels.
            waiting = {each: pool.submit(self._exercise, *each) for each in reversed(work)}
            found = [each for key in work for each in waiting[key].result()]
        kernels = [each for each in found if isinstance(each, Inspected)]
        order = {gpu: number for number, gpu in enumerate(self.gpus)}
        benchmarks = list(dict.fromkeys(_key(each.facts)[:2] for each in kernels))
        keys = list(dict.fromkeys(_key(each.facts) for each in kernels))
        kernels.sort(key=lambda each: (benchmarks.index(_key(each.facts)[:2]), keys.index(_key(each.facts)),
                                       order[each.facts.gpu]))  # fmt: skip
        return kernels, [each for each in found if isinstance(each, Failure)]

    def _exercise(self, name: str, chip: tuple[int, int]) -> list[Inspected | Failure]:
        exercise, file = reference.load(name), self.rubric.file_of(name)
        target = Target(
            exercise,
            self.submission.sources(file),
            file,
            self.rubric.entry_of(name),
            tf32=self.rubric.tf32_of(name),
            case_timeout_s=self.rubric.cases.case_timeout_s,
        )
        found: list[Inspected | Failure] = []
        with Caller(self.machine.interpreter, target) as caller:
            for label, case in self._cases(name):
                found += self._case(caller, label, case, chip)
        return found

    def _cases(self, name: str) -> Iterator[tuple[str, Case]]:
        """The benchmarks' cases; without any, the first that the check `compiles` takes."""
        exercise = reference.load(name)
        benchmarks = self.rubric.exercises[name].speed
        for benchmark in benchmarks:
            yield str(benchmark), benchmark_case(exercise, benchmark)
        if not benchmarks:
            inputs = exercise.edge_cases("compiles")[0]
            tensors = tuple(each for each in inputs.tensors if each.name in exercise.tensors)
            case = Case(name, "compiles", self.rubric.dtypes_of(name)[0], tensors, options=inputs.options)
            yield case.describe(), case

    def _case(self, caller: Caller, label: str, case: Case, chip: tuple[int, int]) -> list[Inspected | Failure]:
        gpus = [gpu for gpu in self.gpus if (GPUS[gpu].target, GPUS[gpu].multiprocessors) == chip]
        seen = {"name": f"NVIDIA {gpus[0]}", "multiprocessors": chip[1], "max_configs": self.max_configs}
        reply = request_compilation(caller, case, chip[:1], seen)
        if isinstance(reply, Verdict):
            message = reply.message
            if re.search(r"\bmeta (?:tensor|device)", message):
                message += " (inspecting calls with tensors that have a shape and no values)"
            return [Failure(exercise=case.exercise, benchmark=label, gpu=gpu, status=reply.status, message=message)
                    for gpu in gpus]  # fmt: skip
        sources = caller.target.sources
        assert sources is not None, "a worker has loaded them"
        found: list[Inspected | Failure] = []
        for kernel in reply.kernels:
            text = kernel.details.ptx_text() if kernel.details else ""
            program = parse(text, kernel.file)
            arguments = kernel.details.arguments if kernel.details else []
            told = patterns(program, arguments)
            source = sources.files.get(kernel.file, b"").decode(errors="replace").splitlines()
            for gpu in gpus:
                facts = kernel_facts(case.exercise, label, gpu, kernel, program, told)
                found.append(Inspected(facts, program, told, source))
        return found


def _key(facts: KernelFacts) -> tuple[str, ...]:
    return facts.exercise, facts.benchmark, facts.kernel, facts.config or str(facts.constants)


def kernel_facts(exercise: str, benchmark: str, gpu: str, kernel: CompiledKernel, program: Program,
                 told: Sequence[Pattern]) -> KernelFacts:  # fmt: skip
    """Everything that can be said of a compiled kernel on a GPU. Pure."""
    chip = GPUS[gpu]
    details = kernel.details
    columns = details.tensor_memory_columns if details else 0
    fit = None
    if kernel.registers is not None and kernel.num_warps and chip.target in ARCHITECTURES:
        fit = occupancy(chip.target, kernel.num_warps, kernel.registers, kernel.shared_bytes, columns)
    blocks = prod(kernel.grid) if kernel.grid else 0
    filled = waves(blocks, fit.blocks, chip.multiprocessors) if fit and fit.blocks and blocks > 0 else None
    accesses = program.accesses
    unread = kernel.details is not None and not program.instructions
    return KernelFacts(
        exercise=exercise,
        benchmark=benchmark,
        gpu=gpu,
        target=chip.target,
        multiprocessors=chip.multiprocessors,
        kernel=kernel.kernel,
        config=kernel.config,
        constants=dict(details.constants) if details else {},
        place=f"{kernel.file}:{kernel.line}" if kernel.file else "",
        error=kernel.error,
        note="; ".join(filter(None, [kernel.note, "its PTX is too long to be looked into" if unread else ""])),
        num_warps=kernel.num_warps,
        num_stages=details.num_stages if details else None,
        grid=kernel.grid,
        registers=kernel.registers,
        spills=kernel.spills,
        stack_bytes=kernel.stack_bytes,
        shared_bytes=kernel.shared_bytes,
        tensor_memory_columns=columns,
        blocks_per_multiprocessor=fit.blocks if fit else None,
        limited_by=fit.limited_by if fit else "",
        occupancy=fit.share if fit else None,
        waves=filled.count if filled else None,
        last_wave_idle=filled.last_idle if filled else None,
        lost=filled.lost if filled else None,
        load_bytes=widest(accesses, store=False),
        store_bytes=widest(accesses, store=True),
        accesses_told=_told(accesses, told) and not unread,
        global_accesses=_summary(told, "global"),
        shared_accesses=_summary(told, "shared"),
        tensor_cores=program.tensor_cores,
        dots=details.dots if details else 0,
        copies=program.copies,
    )


def _told(accesses: Sequence[Access], told: Sequence[Pattern]) -> bool:
    return sum(each.space == "global" for each in accesses) == sum(each.access.space == "global" for each in told)


def _summary(told: Sequence[Pattern], space: str) -> list[AccessFacts]:
    counted: Mapping[tuple[str, bool, int, int, int], int] = Counter(
        (each.access.place, each.access.store, each.access.bytes, each.units, each.least)
        for each in told
        if each.access.space == space
    )
    return [
        AccessFacts(place=place, store=store, bytes=size, units=units, least=least, count=count)
        for (place, store, size, units, least), count in counted.items()
    ]
