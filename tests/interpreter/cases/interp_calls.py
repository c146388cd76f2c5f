"""Calls of the kernels in the repository, as often as it takes to see them run together and apart."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import pytest
import torch
from interp_support import Options, record

import reference
from grader.arena import logical_inputs
from reference.exercise import Case

ROOT = Path(__file__).resolve().parents[3]
NO_KERNELS = ("__init__", "benchmarking")


def matrices(dtype):
    x = torch.linspace(-3, 3, 67 * 90).sin().reshape(67, 90).to(dtype)  # more rows than one program takes
    return [x, x.T.contiguous().T, torch.cat([x, x], 1)[:, 5:80], x[:3, :17]]


def attention_inputs(dtype, requires_grad=False):
    shape = (2, 2, 70, 32)
    q, k, v = (torch.linspace(-9, 9, math.prod(shape) * 3).sin().reshape(3, *shape).to(dtype)).unbind(0)
    return [tensor.clone().requires_grad_(requires_grad) for tensor in (q, k, v)]


def calls(exercise, entry, dtype):
    """Calls of an entry point; each is a function without arguments."""
    if exercise in ("softmax", "gelu", "row_sum"):
        return [lambda x=x: entry(x) for x in matrices(dtype)]
    if exercise == "matmul_relu":
        pairs = [(a, b) for a, b in zip(matrices(dtype), matrices(dtype), strict=True)]
        wide = torch.cat([pairs[0][0]] * 6)
        return [lambda a=a, b=b: entry(a, b.T) for a, b in [*pairs, (wide, wide), (wide[::2], wide[1::2])]]
    if exercise == "rmsnorm":

        def both_ways(x):
            x = x.detach().requires_grad_()
            weight = torch.linspace(0.5, 2, x.shape[-1]).to(dtype).requires_grad_()
            entry(x, weight).sum().backward()

        return [lambda x=x: both_ways(x) for x in matrices(dtype)]
    if exercise == "flash_attention":

        def attention(causal):
            entry(*attention_inputs(dtype, True), causal=causal).sum().backward()

        return [lambda: attention(False), lambda: attention(True)]
    return calls_on_listed_cases(exercise, entry, dtype)


def calls_on_listed_cases(exercise, entry, dtype):
    """For a new exercise: what its reference lists."""
    known = reference.load(exercise)
    listed = [
        Case(exercise, "ragged", f"{dtype}".removeprefix("torch."), inputs.tensors, inputs.seed, inputs.options)
        for inputs in known.edge_cases("ragged")
    ]
    arguments = [known.bind(case, [value.to(dtype) for value in logical_inputs(case)]) for case in listed]
    return [lambda bound=bound: entry(*bound) for bound in arguments]


def load_module(path):
    spec = importlib.util.spec_from_file_location(f"corpus_{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_all(path, exercise, dtype, config_index=0):
    entry = getattr(load_module(path), exercise)
    for call in calls(exercise, entry, dtype):
        with record(Options(config_index=config_index)):
            try:
                call()
            except AssertionError as problem:
                if "together" in str(problem):
                    raise  # the comparison's
            except Exception:  # noqa: BLE001 - wrong submissions raise what they like, and both ways alike
                pass


BLOCK_POINTERS = pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
