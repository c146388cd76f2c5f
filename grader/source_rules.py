"""Trusted side: finds in a source file what a kernel has no use for: processes, files, frames, patches of libraries.

A second line of defence only: whoever wants to can hide from rules on text, so the judge relies on none of them. They
read the syntax tree, never the text: comments, docstrings and names that look alike are not found. What stands below
`if __name__ == "__main__":` never runs in a worker, and is left out.
"""

from __future__ import annotations

import ast
from collections.abc import Container
from dataclasses import dataclass

# id → why. What a message says after what was found.
RULES = {
    "import": "only the modules that the rubric lists, and files beside this one, can be imported",
    "process": "a kernel needs no process, thread, network or compiler of its own",
    "file": "a kernel reads and writes tensors, not files",
    "dynamic-code": "code that is made while it runs can't be read before",
    "introspection": "frames, namespaces and the objects of other code are not the submission's",
    "private": "parts of a library that start with an underscore are not for its users",
    "patching": "changing a library changes how the work is measured",
    "unreadable": "source that can't be read can't be graded",
    "fallback-in-except": "where the kernel fails, something else may do its work",
    "host-data": "values that leave PyTorch can be worked on where no operator is logged",
    "tensor-subclass": "a tensor subclass may compute when it is read",
}
# Suspicious, but what good code does too: told to staff only, unless the rubric says otherwise.
SUSPICIONS = ("fallback-in-except", "tensor-subclass")

# Standard modules that only compute, and `time`, whose clocks decide nothing.
HARMLESS = frozenset((
    "__future__", "abc", "bisect", "cmath", "collections", "contextlib", "copy", "dataclasses", "decimal",
    "enum", "fractions", "functools", "heapq", "itertools", "json", "math", "numbers", "operator", "random",
    "re", "statistics", "string", "textwrap", "time", "timeit", "types", "typing", "typing_extensions", "warnings",
))  # fmt: skip
# Reached through a module that may be imported (`dataclasses.sys`), these are as good as imported.
_SMUGGLED = frozenset((
    "_thread", "asyncio", "atexit", "builtins", "code", "concurrent", "ctypes", "gc", "importlib", "inspect",
    "io", "multiprocessing", "os", "pathlib", "pickle", "pkgutil", "runpy", "shutil", "socket", "subprocess",
    "sys", "tempfile", "threading", "traceback", "weakref",
))  # fmt: skip
_BUILTINS = {
    "open": "file", "exec": "dynamic-code", "eval": "dynamic-code", "compile": "dynamic-code",
    "__import__": "dynamic-code", "globals": "introspection", "vars": "introspection", "locals": "introspection",
    "breakpoint": "process", "input": "process", "__builtins__": "introspection", "__loader__": "introspection",
    "__spec__": "introspection",
}  # fmt: skip
_ATTRIBUTES = frozenset((
    "f_back", "f_globals", "f_locals", "f_builtins", "f_code", "tb_frame", "tb_next", "gi_frame", "cr_frame",
    "ag_frame", "__traceback__", "__globals__", "__builtins__", "__subclasses__", "__bases__", "__mro__",
    "__base__", "__code__", "__closure__", "cell_contents", "__dict__", "__getattribute__", "__reduce__",
    "__reduce_ex__", "__loader__", "__spec__", "__import__", "__self__", "__func__", "_getframe",
))  # fmt: skip
# Parts of the usual libraries that do what the modules above do.
_PARTS = {
    "process": ("torch.multiprocessing", "torch.distributed", "torch.utils.cpp_extension", "torch.ops.load_library",
                "torch.ops.load_libraries", "torch.classes.load_library", "torch.hub", "torch.futures",
                "triton.runtime.build", "triton.backends", "numpy.ctypeslib", "numpy.f2py", "numpy.distutils",
                "torch.cuda.caching_allocator_alloc", "torch.cuda.cudart"),
    "file": ("torch.load", "torch.save", "torch.from_file", "torch.serialization", "torch.package", "numpy.load",
             "numpy.save", "numpy.savez", "numpy.savez_compressed", "numpy.memmap", "numpy.fromfile", "numpy.loadtxt",
             "numpy.savetxt", "numpy.genfromtxt", "numpy.fromregex", "numpy.DataSource", "numpy.lib.format",
             "torch.UntypedStorage", "torch.TypedStorage", "triton.runtime.cache"),
    "introspection": ("torch.overrides", "triton.runtime.interpreter", "operator.attrgetter", "operator.methodcaller",
                      "types.FunctionType", "types.CodeType"),
    "patching": ("torch.library.Library", "torch.library.impl"),
    "dynamic-code": ("torch.jit.CompilationUnit",),
}  # fmt: skip
_METHODS = {"tofile": "file", "from_file": "file", "ctypes": "process", "numpy": "host-data", "tolist": "host-data",
            "from_numpy": "host-data", "frombuffer": "host-data", "__array__": "host-data"}  # fmt: skip
# What libraries are set up by.
_SETTINGS = ("torch.backends.",)
_TENSOR_HOOKS = ("__torch_function__", "__torch_dispatch__")

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class Finding:
    """What a rule found, at a line of a file."""

    file: str
    line: int
    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what} (rule {self.rule}: {RULES[self.rule]})"


@dataclass(frozen=True)
class FileReport:
    """The findings in one file, in the order of its lines, and the names of the modules that it imports."""

    findings: tuple[Finding, ...]
    imports: frozenset[str]


def read_file(name: str, source: bytes, allowed: Container[str], neighbours: Container[str]) -> FileReport:
    """Look for what the rules forbid. `allowed` are top-level modules, `neighbours` the modules beside the file.

    A file that is not Python has no findings: importing it gives the better message.
    """
    try:
        tree = ast.parse(source)
        visitor = _Visitor(name, allowed, neighbours)
        visitor.learn(tree)
        visitor.visit(tree)
    except (SyntaxError, ValueError):
        return FileReport((), frozenset())
    except (RecursionError, MemoryError):
        return FileReport((Finding(name, 1, "unreadable", "is nested too deeply"),), frozenset())
    found = sorted(set(visitor.findings), key=lambda finding: (finding.line, finding.what))
    return FileReport(tuple(found), frozenset(visitor.imported))


class _Visitor(ast.NodeVisitor):
    """Walks one file. `_names` says of a name what it stands for: the dotted path of a module or of a part of one."""

    def __init__(self, file: str, allowed: Container[str], neighbours: Container[str]) -> None:
        self.findings: list[Finding] = []
        self.imported: set[str] = set()
        self._file = file
        self._allowed = allowed
        self._neighbours = neighbours
        self._names: dict[str, str] = {}
        self._own: dict[str, int] = {}  # functions and classes of the file itself, by the line from which they exist
        self._locals: list[set[str]] = []  # the names that each function around the current node binds

    def learn(self, tree: ast.Module) -> None:
        """Note what names stand for, wherever in the file they are bound."""
        for statement in tree.body:
            if isinstance(statement, ast.FunctionDef | ast.ClassDef):
                self._own.setdefault(statement.name, statement.lineno)
        for node in _running(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self._names[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom) and not node.level:
                for alias in node.names:
                    self._names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        for node in _running(tree):  # `T = torch.Tensor`
            if isinstance(node, ast.Assign) and (path := self._path(node.value)) is not None:
                self._names |= {target.id: path for target in node.targets if isinstance(target, ast.Name)}

    def _found(self, node: ast.AST, rule: str, what: str) -> None:
        self.findings.append(Finding(self._file, getattr(node, "lineno", 1), rule, what))

    def _path(self, node: ast.AST) -> str | None:
        """The dotted path of a name or attribute that leads out of the file, None for any other expression."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self._names:
            return None
        path = ".".join([self._names[node.id], *reversed(parts)])
        return None if path.partition(".")[0] in self._neighbours else path

    # ------------------------------------------------------------ imports

    def visit_Import(self, node: ast.Import) -> None:
        """Check each module."""
        for alias in node.names:
            self._import(node, alias.name)
            self._binding(node, alias.asname or "")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Check the module and each name taken from it."""
        if node.level:
            self._found(node, "import", f"imports from {'.' * node.level}{node.module or ''}")
            return
        self._import(node, node.module or "")
        for alias in node.names:
            self._binding(node, alias.asname or alias.name)
            if (node.module or "").partition(".")[0] not in self._neighbours:
                self._check_path(node, f"{node.module}.{alias.name}")

    def _import(self, node: ast.AST, module: str) -> None:
        top = module.partition(".")[0]
        if top in self._neighbours:
            self.imported.add(top)
        elif top not in self._allowed:
            self._found(node, "import", f"imports {module}")
        else:
            self._check_path(node, module)

    def _check_path(self, node: ast.AST, path: str) -> None:
        """Check a dotted path that begins with a module."""
        for part in path.split(".")[1:]:
            if part in _SMUGGLED and part not in self._allowed:
                self._found(node, "import", f"reaches {part} by {path}")
            if part.startswith("_") and not part.startswith("__") and part not in _ATTRIBUTES:
                self._found(node, "private", f"uses {path}")
                break
        for rule, prefixes in _PARTS.items():
            if any(path == prefix or path.startswith(f"{prefix}.") for prefix in prefixes):
                self._found(node, rule, f"uses {path}")

    # ------------------------------------------------------------ names and attributes

    def visit_Name(self, node: ast.Name) -> None:
        """Check built-in functions, unless the file has one of the same name."""
        if isinstance(node.ctx, ast.Load):
            if node.id in _BUILTINS and not self._is_own(node):
                self._found(node, _BUILTINS[node.id], f"uses {node.id}")
        else:
            self._binding(node, node.id)

    def _is_own(self, node: ast.Name) -> bool:
        return self._own.get(node.id, node.lineno) < node.lineno or any(node.id in names for names in self._locals)

    def _binding(self, node: ast.AST, name: str, *, shared: bool = False) -> None:
        if (shared or not self._locals) and name in (
            "__name__",
            "__builtins__",
            "__loader__",
            "__spec__",
            "__import__",
        ):
            self._found(node, "patching", f"binds {name}")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Check the attribute itself, and the whole path where it leads out of the file."""
        path = self._path(node)
        if node.attr in _ATTRIBUTES:
            self._found(node, "introspection", f"uses {node.attr}")
        elif path is None and node.attr in _METHODS:
            self._found(node, _METHODS[node.attr], f"uses .{node.attr}")
        if path is not None:
            if isinstance(node.ctx, ast.Load):
                self._check_path(node, path)
                if path in ("torch.from_numpy", "torch.frombuffer", "numpy.asarray", "numpy.frombuffer"):
                    self._found(node, "host-data", f"uses {path}")
            elif not path.startswith(_SETTINGS):
                self._found(node, "patching", f"changes {path}")
        elif node.attr == "__class__" and not isinstance(node.ctx, ast.Load):
            self._found(node, "patching", "changes the class of an object")
        inner: ast.AST = node.value
        while path is not None and isinstance(inner, ast.Attribute):  # checked as one path
            inner = inner.value
        self.visit(inner)

    def visit_Call(self, node: ast.Call) -> None:
        """Check what attributes are reached by a text."""
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        texts = [value.value for value in node.args if isinstance(value, ast.Constant) and isinstance(value.value, str)]
        for text in texts:
            if text in _ATTRIBUTES or (name == "getattr" and text in _BUILTINS and text.startswith("__")):
                self._found(node, "introspection", f"uses {text!r}")
        if node.args and (path := self._path(node.args[0])) is not None:
            if name in ("setattr", "delattr"):
                self._found(node, "patching", f"changes {path} by {name}")
            elif name == "getattr" and texts:
                self._check_path(node, f"{path}.{texts[0]}")
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """Check keys that are names of what must not be reached."""
        if isinstance(node.slice, ast.Constant) and node.slice.value in ("__builtins__", "__globals__", "__import__"):
            self._found(node, "introspection", f"uses {node.slice.value!r}")
        self.generic_visit(node)

    # ------------------------------------------------------------ blocks

    def visit_If(self, node: ast.If) -> None:
        """Leave out what only runs as a program."""
        for child in node.orelse if _is_main(node.test) else ast.iter_child_nodes(node):
            self.visit(child)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Check a class: what it binds is its own."""
        self._binding(node, node.name)
        self._locals.append(set())
        self.generic_visit(node)
        self._locals.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Check a function, with the names that it binds in mind."""
        self._binding(node, node.name)
        if node.name in _TENSOR_HOOKS:
            self._found(node, "tensor-subclass", f"defines {node.name}")
        for outside in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(outside)
        self._inside(node, node.body)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        """As any function."""
        self.visit_FunctionDef(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """As a function."""
        for outside in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(outside)
        self._inside(node, [node.body])

    def _inside(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, body: list[ast.stmt] | list[ast.expr]
    ) -> None:
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        bound = {argument.arg for argument in arguments if argument is not None}
        for statement in body:
            bound |= {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        shared = {name for n in ast.walk(node) if isinstance(n, ast.Global | ast.Nonlocal) for name in n.names}
        for name in shared:
            self._binding(node, name, shared=True)
        self._locals.append(bound - shared)
        for statement in body:
            self.visit(statement)
        self._locals.pop()

    def visit_Try(self, node: ast.Try) -> None:
        """Note a kernel's launch whose failure is answered by another call."""
        if any(isinstance(n, ast.Call) and isinstance(n.func, ast.Subscript) for s in node.body for n in ast.walk(s)):
            for handler in node.handlers:
                if any(isinstance(n, ast.Return | ast.Assign) for s in handler.body for n in ast.walk(s)):
                    self._found(handler, "fallback-in-except", "answers a launch that fails by other work")
        self.generic_visit(node)


def _is_main(test: ast.expr) -> bool:
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
        return False
    sides = (test.left, test.comparators[0])
    return any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides) and any(
        isinstance(side, ast.Constant) and side.value == "__main__" for side in sides
    )


def _running(tree: ast.AST) -> list[ast.AST]:
    """All nodes but those that only run as a program."""
    found: list[ast.AST] = [tree]
    for node in found:
        main = isinstance(node, ast.If) and _is_main(node.test)
        found.extend(node.orelse if main and isinstance(node, ast.If) else ast.iter_child_nodes(node))
    return found
