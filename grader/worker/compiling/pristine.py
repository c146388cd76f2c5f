"""Triton as it is without an interpreter: remembered when this module is imported, put back in a compiling child.

Untrusted side. Interpreting patches `triton.language` in place, and what `@triton.jit` made of Triton's own helpers
(`tl.sum`, `tl.cdiv`, …) while TRITON_INTERPRET was set can't be compiled: both are undone here.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import triton
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

# Imported early, so that what a submission may use is remembered before it can be patched.
_MODULES = (
    "triton.backends.nvidia.compiler",
    "triton.compiler.code_generator",
    "triton.compiler.compiler",
    "triton.language.extra.cuda",
    "triton.language.extra.cuda.libdevice",
    "triton.language.extra.libdevice",
    "triton.testing",
    "triton.tools.tensor_descriptor",
)
TRITON_FOLDER = str(Path(triton.__file__).parent)

# Class entries that Python itself adds after the class was made.
_PYTHONS_OWN = frozenset({"__abstractmethods__", "__annotations__", "__doc__", "__parameters__"})
_MISSING = object()


def compiled_twin(function: Any) -> Any:
    """The `JITFunction` that `@triton.jit` would have made where it made this `InterpretedFunction`.

    Raises what Triton raises where the source isn't to be found or isn't a `def`.
    """
    twin = JITFunction(function.fn, **function.kwargs)
    twin.pre_run_hooks = list(function.pre_run_hooks)
    return twin


class Pristine:
    """The contents of Triton's modules and classes at one moment."""

    def __init__(self) -> None:
        for name in _MODULES:
            importlib.import_module(name)
        if triton.language.load.__code__.co_filename != triton.language.core.__file__:
            raise ImportError("triton.language is patched already: import grader.worker.compiling before that")
        modules = [
            module
            for name, module in sys.modules.items()
            if name.partition(".")[0] == "triton" and not name.startswith("triton._C")
        ]
        self._twins: dict[int, Any] = {}
        self._kept: list[object] = []  # an id means something only as long as its object lives
        self._before: list[tuple[Any, dict[str, Any]]] = []
        seen: set[int] = set()
        for module in modules:
            self._remember(module, seen)
            for value in list(vars(module).values()):
                if isinstance(value, type) and value.__module__.partition(".")[0] == "triton":
                    self._remember(value, seen)
        for owner, before in self._before:
            for name, value in before.items():
                if isinstance(owner, type) and isinstance(value, FunctionType):
                    before[name] = self._without_forwarder(value)

    def _remember(self, owner: Any, seen: set[int]) -> None:
        if id(owner) in seen or "_C" in getattr(owner, "__module__", owner.__name__).split("."):
            return
        seen.add(id(owner))
        before = dict(vars(owner))
        for value in before.values():
            if isinstance(value, InterpretedFunction) and id(value) not in self._twins:
                self._kept.append(value)
                self._twins[id(value)] = compiled_twin(value)
        self._before.append((owner, before))

    def _without_forwarder(self, function: FunctionType) -> Any:
        # `x.sum()` is a Python function that forwards to `tl.sum` where that isn't a JITFunction, and the JITFunction
        # itself where it is; the code generator accepts the second only.
        for cell in function.__closure__ or ():
            if id(cell.cell_contents) in self._twins:
                return cell.cell_contents
        return function

    def restore(self) -> dict[int, Any]:
        """Puts everything back in this process and returns, by id, what each thing taken out stood for."""
        stood_for: dict[int, Any] = dict(self._twins)
        for owner, before in self._before:
            for name in vars(owner).keys() - before.keys() - _PYTHONS_OWN:
                # A submodule imported since is no patch.
                if not isinstance(vars(owner)[name], ModuleType):
                    delattr(owner, name)
            for name, value in before.items():
                current = vars(owner).get(name, _MISSING)
                original = self._twins.get(id(value), value)
                if current is original or name in _PYTHONS_OWN:
                    continue
                setattr(owner, name, original)
                # Only what can be told from any other value by its identity: a patch may well be a builtin.
                if callable(current) and getattr(current, "__module__", "builtins") != "builtins":
                    self._kept.append(current)
                    stood_for.setdefault(id(current), original)
        return stood_for


PRISTINE = Pristine()
