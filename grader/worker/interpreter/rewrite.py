"""Rewrites a kernel's source so that Python runs it with Triton's meaning (untrusted worker side).

Python and Triton differ where Python insists on truth values and plain integers: `and`, `or`, `not`, chained
comparisons, `min`, `max`, loop variables, assigned numbers. The rewritten function gets its helpers by closure, so the
module's globals stay as the student wrote them and a name that was never imported is a NameError, as on a GPU.
"""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any

from . import language, waiting

_HELPERS: dict[str, Callable[..., Any]] = {
    "__grader_assign": language.assign,
    "__grader_and": language.logical_and,
    "__grader_or": language.logical_or,
    "__grader_not": language.logical_not,
    "__grader_while": waiting.WhileGuard,
    "__grader_value": language.value_of,
}
# Python builtins that mean something else inside a kernel.
_SHADOWED = {"range": language.loop_range, "min": language.minimum, "max": language.maximum, "print": language.printed}


class _Transformer(ast.NodeTransformer):
    def __init__(self) -> None:
        self.loops = 0

    @staticmethod
    def _call(helper: str, *args: ast.expr) -> ast.Call:
        return ast.Call(func=ast.Name(id=helper, ctx=ast.Load()), args=list(args), keywords=[])

    @staticmethod
    def _later(node: ast.expr) -> ast.expr:
        """A thunk, or the operand itself where evaluating it can't fail or have an effect."""
        if isinstance(node, (ast.Name, ast.Constant)):
            return node
        empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        return _call_marker(ast.Lambda(args=empty, body=node))

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        node.value = self._call("__grader_assign", node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        constant = "constexpr" in ast.unparse(node.annotation)
        self.generic_visit(node)
        if node.value is not None and not constant:
            node.value = self._call("__grader_assign", node.value)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        helper = "__grader_and" if isinstance(node.op, ast.And) else "__grader_or"
        return self._call(helper, *map(self._later, node.values))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return self._call("__grader_not", node.operand) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        lefts = [node.left, *node.comparators[:-1]]
        links = [
            ast.Compare(left=left, ops=[op], comparators=[right])
            for left, op, right in zip(lefts, node.ops, node.comparators, strict=True)
        ]
        return self._call("__grader_and", *map(self._later, links))

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr == "value" and isinstance(node.ctx, ast.Load):
            return self._call("__grader_value", node.value)
        return node

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        self.generic_visit(node)
        self.loops += 1
        name = f"__grader_guard_{self.loops}"
        guard = ast.Assign(targets=[ast.Name(id=name, ctx=ast.Store())], value=self._call("__grader_while"))
        node.test = ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=[node.test], keywords=[])
        return [guard, node]

    def visit_Import(self, node: ast.Import) -> ast.AST:
        return node


def _call_marker(thunk: ast.Lambda) -> ast.expr:
    """Mark a thunk, so that the helper tells it from an operand that is itself callable."""
    return ast.Call(func=ast.Name(id="__grader_later", ctx=ast.Load()), args=[thunk], keywords=[])


_HELPERS["__grader_later"] = language.Later


def _definition(fn: types.FunctionType) -> ast.FunctionDef:
    """The parsed definition of `fn`, at its own line numbers.

    Raises:
        OSError: the source isn't available.
        SyntaxError: the source that Python finds for the function isn't a definition of it.

    """
    lines, _ = inspect.getsourcelines(fn)
    first = fn.__code__.co_firstlineno
    indented = lines[0][:1].isspace()
    # A block around an indented function spares dedenting, which text inside its strings would defeat.
    tree = ast.parse("if True:\n" + "".join(lines) if indented else "".join(lines))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == fn.__name__:
            node.decorator_list = []
            ast.increment_lineno(node, first - (2 if indented else 1))
            return node
    raise SyntaxError(f"no definition of {fn.__name__} in its source")


def _captured(fn: types.FunctionType) -> dict[str, Any]:
    """The enclosing function's variables that `fn` uses."""
    captured = {}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            captured[name] = cell.cell_contents
        except ValueError:  # not assigned yet: the name stays unknown
            continue
    return captured


def rewrite(fn: types.FunctionType, replacements: Mapping[int, Any]) -> Callable[..., Any]:
    """The function to run in place of `fn`; `fn` itself where its source can't be had.

    `replacements` maps ids of Triton's own functions to what runs instead, for names imported one by one.
    """
    try:
        definition = _definition(fn)
    except (OSError, SyntaxError, TypeError):
        return fn
    definition = _Transformer().visit(definition)
    definition.returns = None
    for arg in [*definition.args.posonlyargs, *definition.args.args, *definition.args.kwonlyargs]:
        arg.annotation = None
    closure: dict[str, Any] = {name: stand_in for name, stand_in in _SHADOWED.items() if name not in fn.__globals__}
    closure.update(_captured(fn))
    for name in fn.__code__.co_names:
        stand_in = replacements.get(id(fn.__globals__.get(name)))
        if stand_in is not None:
            closure[name] = stand_in
    closure.update(_HELPERS)
    factory = ast.FunctionDef(
        name="__grader_factory",
        args=ast.arguments(
            posonlyargs=[], args=[ast.arg(arg=name) for name in closure], kwonlyargs=[], kw_defaults=[], defaults=[]
        ),
        body=[definition, ast.Return(value=ast.Name(id=fn.__name__, ctx=ast.Load()))],
        decorator_list=[],
    )
    if "type_params" in ast.FunctionDef._fields:  # Python 3.12 and later
        factory.type_params = []  # type: ignore[attr-defined]
    module = ast.Module(body=[factory], type_ignores=[])
    ast.copy_location(factory, definition)
    ast.fix_missing_locations(module)
    namespace: dict[str, Any] = {}
    # Trusted as far as the kernel is: this is the submission's own source.
    exec(compile(module, fn.__code__.co_filename, "exec"), fn.__globals__, namespace)  # noqa: S102
    rewritten: Callable[..., Any] = namespace["__grader_factory"](**closure)
    return rewritten
