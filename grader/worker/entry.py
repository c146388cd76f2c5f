"""Untrusted side: imports a submission's file, finds its entry point, and puts what it raises into words."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

MAX_TEXT = 4000
MAX_FRAMES = 12
MAX_LIST = 32


class EntryError(Exception):
    """The file has no such entry point."""


def import_file(path: Path) -> Any:
    """The module in a file. Raises what its code raises."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def find_entry(module: Any, dotted: str) -> Callable[..., Any]:
    """What is called: a function by its dotted name, or an autograd.Function's `apply`. Raises EntryError."""
    found = module
    for part in dotted.split("."):
        if not hasattr(found, part):
            names = [name for name, value in vars(module).items()
                     if callable(value) and getattr(value, "__module__", None) == module.__name__]  # fmt: skip
            raise EntryError(f"the file has no {dotted!r}" + (f"; it defines {', '.join(names[:10])}" if names else ""))
        found = getattr(found, part)
    if isinstance(found, type) and callable(apply := getattr(found, "apply", None)):
        return apply  # type: ignore[no-any-return] # an autograd.Function
    if not callable(found):
        raise EntryError(f"{dotted!r} is a {type_name(found)}, not a function")
    return found  # type: ignore[no-any-return]


def describe(error: BaseException, root: str) -> dict[str, Any]:
    """Type, message and the frames of an exception in files below `root`, the submission's own."""
    frames = [
        {"file": Path(frame.filename).name, "line": frame.lineno, "code": (frame.line or "")[:200]}
        for frame in traceback.extract_tb(error.__traceback__)
        if root and frame.filename.startswith(root)
    ]
    if isinstance(error, SyntaxError) and error.filename and error.filename.startswith(root):
        frames.append({"file": Path(error.filename).name, "line": error.lineno or 0,
                       "code": (error.text or "").strip()[:200]})  # fmt: skip
    message = (isinstance(error, SyntaxError) and error.msg) or _safe_text(error)
    return {
        "type": type(error).__name__[:100],
        "bases": [base.__name__[:100] for base in type(error).__mro__][:MAX_LIST],
        "message": message.replace(root + "/", "")[:MAX_TEXT],
        "frames": frames[-MAX_FRAMES:],
    }


def type_name(value: object) -> str:
    """The name of its type, with the module where that is not `builtins`."""
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")[:100]


def _safe_text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - __str__ is the submission's code
        return "(its message could not be read)"
