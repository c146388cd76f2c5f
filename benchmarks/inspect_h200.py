"""Compares what `grader inspect` says of the staff solutions with what a GPU was given, on that GPU.

    python benchmarks/inspect_h200.py [--json FILE]

Each solution is launched at the sizes of its benchmarks. The kernels that Triton has then loaded tell their registers,
their local memory and their shared memory; the inspection, which never sees the GPU, tells the same of each
configuration. Both are matched by kernel, constants, warps and stages. Ends with 1 where a number differs or a launched
kernel was not inspected.
"""

import argparse
import importlib
import json
import time
from pathlib import Path

import torch
from environment import environment
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

import reference
from grader import hardware
from grader.cli_input import known_exercises
from grader.inspection import Inspector
from grader.items import benchmark_case
from grader.judging import default_root
from grader.machine import Machine
from grader.rubric import load_rubric
from grader.submission import Submission


def key(kernel, constants, num_warps, num_stages):
    return kernel, tuple(sorted((name, str(value)) for name, value in constants.items())), num_warps, num_stages


def jits(module):
    for value in vars(module).values():
        while isinstance(value, Autotuner):
            value = value.fn
        if isinstance(value, JITFunction):
            yield value


def launched(module):
    """Registers, local memory in words and shared memory of every kernel of a module that is loaded on the GPU."""
    found = {}
    for jit in {id(each): each for each in jits(module)}.values():
        for kernel in jit.device_caches[torch.cuda.current_device()][0].values():
            if not getattr(kernel, "n_regs", None):
                continue  # compiled and never loaded: a configuration that the autotuner passed over
            constants = {
                jit.arg_names[path[0]]: value
                for path, value in kernel.src.constants.items()
                if len(path) == 1 and jit.params[path[0]].is_constexpr and isinstance(value, bool | int | float | str)
            }
            facts = {"registers": kernel.n_regs, "local_words": kernel.n_spills, "shared_bytes": kernel.metadata.shared}
            found[key(jit.__name__, constants, kernel.metadata.num_warps, kernel.metadata.num_stages)] = facts
    return found


def run_benchmarks(rubric, name, module):
    exercise = reference.load(name)
    for benchmark in rubric.exercises[name].speed:
        case = benchmark_case(exercise, benchmark)
        dtype = getattr(torch, case.dtype)
        tensors = [torch.randn(spec.shape, device="cuda").to(dtype) for spec in case.tensors]
        getattr(module, name)(*exercise.bind(case, tensors))
        torch.cuda.synchronize()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rubric = load_rubric(default_root() / "rubric.yaml").rubric
    gpu = next(name for name, known in hardware.GPUS.items() if known is hardware.lookup(torch.cuda.get_device_name(0)))
    submission = Submission(default_root() / "reference/solutions")
    exercises = known_exercises(rubric, [])
    machine = Machine(rubric.limits, "cpu")
    try:
        begun = time.perf_counter()
        Inspector(rubric, submission, machine).run(exercises)
        seconds_for_all = time.perf_counter() - begun
        inspected, failures = Inspector(rubric, submission, machine, (gpu,), 8).run(exercises)
    finally:
        machine.close()
    told = {key(e.facts.kernel, e.facts.constants, e.facts.num_warps, e.facts.num_stages): e.facts for e in inspected}
    rows = []
    for name in exercises:
        module = importlib.import_module(f"reference.solutions.{name}")
        run_benchmarks(rubric, name, module)
        for each, facts in launched(module).items():
            of_inspection = told.get(each)
            said = of_inspection and {
                "registers": of_inspection.registers,
                "local_words": (of_inspection.stack_bytes or 0) // 4,
                "shared_bytes": of_inspection.shared_bytes,
            }
            row = {"exercise": name, "kernel": each[0], "constants": dict(each[1]), "num_warps": each[2],
                   "num_stages": each[3], "launched": facts, "inspected": said, "equal": facts == said,
                   "spills": of_inspection and of_inspection.spills}  # fmt: skip
            rows.append(row)
            print("equal " if row["equal"] else "DIFFER", name, each[0], dict(each[1]), facts, said, flush=True)
    equal = sum(row["equal"] for row in rows)
    print(f"{equal} of {len(rows)} launched kernels equal; four GPUs inspected in {seconds_for_all:.1f} s")
    report = environment() | {"equal": equal, "launched": len(rows), "seconds_for_a100_h100_h200_b200": seconds_for_all,
                              "failures": [each.model_dump() for each in failures], "rows": rows}  # fmt: skip
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    raise SystemExit(0 if rows and equal == len(rows) and not failures else 1)


if __name__ == "__main__":
    main()
