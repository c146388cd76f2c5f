"""The table of docs/interpreter.md, read from the `@feature` marks of the cases.

python tests/interpreter/features.py > docs/interpreter.md
"""

from __future__ import annotations

import ast
from pathlib import Path

HERE = Path(__file__).resolve().parent
DOCUMENT = HERE.parent.parent / "docs" / "interpreter.md"

INTRODUCTION = """\
# Triton features on a CPU

Without a GPU, kernels run in Triton's interpreter, mended by `grader/worker/interpreter`. This table is made from the
tests that prove each line: `python tests/interpreter/features.py > docs/interpreter.md`. Tried with Triton 3.6 to 3.9.

**Right here**: gives what a GPU gives, up to the last bits of `exp`, `sin` and the like (their GPU versions are
approximate) and the order of float32 sums. **Not measurable here**: the item is reported as not measured, never as the
student's fault.

| feature | on a CPU | proved by |
|---|---|---|
"""


def marked():
    """(feature, status, case file, test) of every mark, in the order of the files."""
    found = []
    for path in sorted((HERE / "cases").glob("interp_*.py")):
        for node in ast.parse(path.read_text()).body:
            if not isinstance(node, ast.FunctionDef):
                continue
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "feature":
                    name, status = ([arg.value for arg in mark.args] + ["right"])[:2]
                    found.append((name, status, path.name, node.name))
    return found


def document():
    rows = [
        f"| {name} | {status} here | `{file}::{test}` |"
        for name, status, file, test in sorted(marked(), key=lambda mark: mark[1] != "right")
    ]
    return INTRODUCTION + "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(document(), end="")
