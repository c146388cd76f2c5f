"""Points a submission at the compiler: its interpreted kernels become `JITFunction`s wherever it refers to them.

Untrusted side, in a compiling child that ends afterwards, so nothing is put back.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

import torch
from triton.runtime import interpreter
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

from grader.worker.compiling.pristine import TRITON_FOLDER, compiled_twin
from grader.worker.compiling.records import CallFailed

_LEAVES = (bool, int, float, str, bytes, torch.Tensor, torch.dtype)


class Rewiring:
    """Walks what the submission holds and replaces, by identity, what belongs to the interpreter.

    `stood_for` maps the id of a patched object to Triton's own. `files` and `jits` grow to all files of the submission
    and all its jit functions. Raises `CallFailed` where Triton would not have accepted a function as a kernel.
    """

    def __init__(self, stood_for: dict[int, Any]) -> None:
        self._stood_for = stood_for
        self._done: dict[int, tuple[Any, Any]] = {}  # id → the object (kept alive) and what replaces it
        self._names: set[str] = set()
        self._folders: set[Path] = set()
        self.files: set[str] = set()
        self.jits: list[Any] = []

    def module(self, module: ModuleType) -> None:
        """Rewires a module of the submission and what it refers to."""
        if module.__name__ in self._names:
            return
        self._names.add(module.__name__)
        if file := getattr(module, "__file__", None):
            self.files.add(file)
            self._folders.add(Path(file).parent)
        drop_injected(module)
        self.replace(vars(module))

    def _is_sibling(self, module: ModuleType) -> bool:
        file = getattr(module, "__file__", None)
        if not file or "site-packages" in Path(file).parts:
            return False
        return any(folder in Path(file).parents for folder in self._folders)

    def replace(self, value: Any) -> Any:
        """What should stand where `value` stands; containers and closures are changed in place where they can be."""
        if value is None or isinstance(value, _LEAVES):
            return value
        if id(value) in self._stood_for:
            return self._stood_for[id(value)]
        if id(value) in self._done:
            return self._done[id(value)][1]
        self._done[id(value)] = (value, value)  # before the walk goes on, for cycles
        new = self._visit(value)
        self._done[id(value)] = (value, new)
        return new

    def _visit(self, value: Any) -> Any:
        match value:
            case InterpretedFunction():
                self._function(value.fn)
                self.jits.append(_twin(value))
                return self.jits[-1]
            case JITFunction():
                self._function(value.fn)
                self.jits.append(value)
            case ModuleType():
                if self._is_sibling(value):
                    self.module(value)
            case FunctionType():
                self._function(value)
            case MethodType():
                return MethodType(self.replace(value.__func__), self.replace(value.__self__))
            case staticmethod() | classmethod():
                self.replace(value.__func__)
            case property():
                self.replace([value.fget, value.fset])
            case functools.partial():
                return type(value)(self.replace(value.func), *self.replace(value.args), **self.replace(value.keywords))
            case dict():
                self._entries(value)
            case list():
                value[:] = [self.replace(each) for each in value]
            case tuple():
                return self._tuple(value)
            case type():
                if value.__module__ in self._names:
                    for name, each in list(vars(value).items()):
                        if (new := self.replace(each)) is not each:
                            setattr(value, name, new)
            case Autotuner() | Heuristics():
                self._entries(vars(value))
            case _:
                if type(value).__module__ in self._names and hasattr(value, "__dict__"):
                    self._entries(vars(value))
        return value

    def _entries(self, entries: dict[Any, Any]) -> None:
        for name, each in list(entries.items()):
            if (new := self.replace(each)) is not each:
                entries[name] = new

    def _tuple(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        new = [self.replace(each) for each in value]
        if all(before is after for before, after in zip(value, new, strict=True)):
            return value
        return type(value)._make(new) if hasattr(value, "_make") else tuple(new)

    def _function(self, function: Any) -> None:
        # Unwrapped kernels reach here too: `fn` of a kernel is what the student wrote.
        if not isinstance(function, FunctionType) or function.__code__.co_filename.startswith(TRITON_FOLDER):
            return
        home = sys.modules.get(function.__module__)
        if home is not None and vars(home) is function.__globals__ and (_has_kernels(home) or self._is_sibling(home)):
            self.module(home)
        for cell in function.__closure__ or ():
            try:
                before = cell.cell_contents
            except ValueError:  # a name that the enclosing function hasn't bound yet
                continue
            if (after := self.replace(before)) is not before:
                cell.cell_contents = after
        if function.__defaults__:
            function.__defaults__ = self.replace(function.__defaults__)
        if function.__kwdefaults__:
            self.replace(function.__kwdefaults__)
        self.replace(function.__dict__)


def _twin(function: Any) -> Any:
    try:
        return compiled_twin(function)
    except (AttributeError, TypeError, ValueError) as error:
        code = function.fn.__code__
        raise CallFailed(
            f"@triton.jit can't take {function.fn.__name__}: {error}", Path(code.co_filename).name, code.co_firstlineno
        ) from error


def _has_kernels(module: ModuleType) -> bool:
    return any(
        isinstance(value, InterpretedFunction | JITFunction | Autotuner | Heuristics) for value in vars(module).values()
    )


def drop_injected(module: ModuleType) -> None:
    """Takes out the names that Triton's interpreter put among a module's globals when it rewrote its kernels.

    With them a kernel that uses `math` without importing it would compile here, and fail where it is launched.
    """
    try:
        bound = _names_bound(ast.parse(inspect.getsource(module)))
    except (OSError, TypeError, SyntaxError):  # no source, no telling them apart
        return
    for name, value in vars(interpreter).items():
        if name not in bound and not name.startswith("__") and vars(module).get(name, module) is value:
            delattr(module, name)


def _names_bound(tree: ast.Module) -> set[str]:
    bound = set()
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(source), names=[ast.alias(name="*")]):
                bound |= set(vars(sys.modules[source])) if source in sys.modules else set()
            case ast.alias(name=name, asname=asname):
                bound.add(asname or name.partition(".")[0])
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                bound.add(name)
    return bound
