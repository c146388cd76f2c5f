"""Makes the judge's threads safe where the interpreter is not."""

from __future__ import annotations

import ast
import functools
import threading
from typing import Any

_lock = threading.Lock()


def guard_ast_parse() -> None:
    """Have `ast.parse` run in one thread at a time, once and for all.

    CPython 3.11 counts the recursion depth of its parser per interpreter, not per thread: parses that overlap end in
    "SystemError: AST constructor recursion depth mismatch" (python/cpython issue 106905). Hypothesis parses the
    strategies of each item, and pytest parses when it is interrupted.
    """
    parse = ast.parse
    if getattr(parse, "__wrapped__", None) is not None:
        return

    @functools.wraps(parse)
    def one_at_a_time(*args: Any, **kwargs: Any) -> Any:
        with _lock:
            return parse(*args, **kwargs)

    ast.parse = one_at_a_time
