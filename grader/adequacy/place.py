"""Where in a solution a node stands, as far as the mutators ask, and how calls are written anew. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from .source import Source


@dataclass(frozen=True)
class Place:
    """A node with its surroundings."""

    source: Source
    node: ast.expr | ast.stmt

    @property
    def parent(self) -> ast.AST | None:
        """The node around it."""
        return self.source.parents.get(self.node)

    @cached_property
    def functions(self) -> list[ast.FunctionDef]:
        """The functions around it, innermost first."""
        return self.source.functions_around(self.node)

    @property
    def in_kernel(self) -> bool:
        """Whether it is code of a kernel."""
        return any(is_kernel(function) for function in self.functions)

    @property
    def parameters(self) -> list[str]:
        """The names of the innermost function's parameters."""
        return [argument.arg for argument in self.functions[0].args.args] if self.functions else []

    @property
    def input_dtype(self) -> str:
        """An expression for the dtype of the exercise's tensors: what the kernel converts to, or else reads first."""
        converted = re.search(r"\w+\.dtype\.element_ty", ast.unparse(self.functions[0])) if self.functions else None
        return converted[0] if converted else f"{self.parameters[0]}.dtype.element_ty"

    def of(self, node: ast.expr | ast.stmt) -> str:
        """The text of a node, to stand inside another expression."""
        return self.source.of(node)

    def call(self, function: str | None = None, *, without: str = "", **replaced: str) -> str:
        """The call written anew: another function, one keyword less, others replaced or added."""
        assert isinstance(self.node, ast.Call)
        arguments = [self.source.raw(argument) for argument in self.node.args]
        for keyword in self.node.keywords:
            if keyword.arg is None:
                arguments.append(f"**{self.source.raw(keyword.value)}")
            elif keyword.arg != without:
                arguments.append(f"{keyword.arg}={replaced.pop(keyword.arg, self.source.raw(keyword.value))}")
        arguments += [f"{name}={text}" for name, text in replaced.items()]
        return f"{function or self.source.of(self.node.func)}({', '.join(arguments)})"


def is_kernel(function: ast.FunctionDef) -> bool:
    """Whether a function has a decorator of Triton's compiler."""
    return any("jit" in ast.unparse(decorator) for decorator in function.decorator_list)


def called(node: ast.AST, names: Sequence[str], module: str = "tl") -> bool:
    """Whether the node is a call of one of these functions of a module."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in names
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == module
    )


def keyword_of(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword argument."""
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
