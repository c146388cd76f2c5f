"""From what Triton's compiler raised or printed to a message and a line of the submission.

Untrusted side.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton.compiler.errors import CompilationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from collections.abc import Set as AbstractSet
    from types import FrameType

_MAX_LINES = 4
_MAX_CHARACTERS = 600
_DEFINITION = re.compile(r"^\s*def\s+\w+\s*\(")  # as Triton looks for the start of a kernel's source
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_FOLDERS = re.compile(r"(?:/[\w.+-]+)+/(?=[\w.+-])")
_DIAGNOSTIC = re.compile(r'(?:loc\()?"?([^\s":(]+)"?:(\d+):\d+\)?: error: (.+)')
_NAMED = (
    re.compile(r"<(?:built-in )?(?:function|method|class) '?([\w.]+)"),
    re.compile(r"has no attribute '(\w+)'"),
    re.compile(r"[Gg]lobal variable '?(\w+)"),
)
_REPR = re.compile(r"""\w+(?:Error|Exception)\((['"])(.*)\1,?\)""", re.DOTALL)
_ADVICE = re.compile(r"\s+Alternatively, set the envvar.*", re.DOTALL)  # no setting of the submission's to make
_PTXAS = re.compile(r"ptxas.*?(?:error|fatal)\s*:\s*(.+)")


@dataclass(frozen=True)
class Finding:
    """What went wrong and where; the file is a whole path, or None where nothing told the place."""

    message: str
    file: str | None = None
    line: int | None = None


def definition(jit: Any) -> Finding:
    """Where a kernel is defined, as a finding without a message."""
    offset = next((index for index, line in enumerate(jit.raw_src) if _DEFINITION.match(line)), 0)
    return Finding("", jit.fn.__code__.co_filename, jit.starting_line_number + offset)


def launch_line(frame: FrameType | None, files: AbstractSet[str]) -> Finding:
    """The innermost line of the submission that is running, seen from `frame`."""
    while frame is not None:
        if frame.f_code.co_filename in files:
            return Finding("", frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return Finding("")


def raised_line(error: BaseException, files: AbstractSet[str]) -> Finding:
    """The innermost line of the submission that an exception passed through."""
    found = Finding("")
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename in files:
            found = Finding("", trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return found


def explain(error: BaseException, kernel: Any, jits: Iterable[Any], files: AbstractSet[str], log: str) -> Finding:
    """What the compiler had against `kernel`.

    `jits` are all jit functions that exist, `log` is what the compiler printed. The place is None for errors that
    have none in the source: a launch's options, resources, ptxas.
    """
    chain = list(_chain(error))
    own = [jit for jit in [kernel, *jits] if jit.fn.__code__.co_filename in files]
    message = clean(_deepest_text(chain), kernel)
    if isinstance(error, CompilationError):
        # The chain goes from the kernel into the helpers it calls; the last of the submission's own is the place.
        for each in reversed(chain):
            jit = next((jit for jit in own if jit.src == getattr(each, "src", None)), None)
            if jit is not None and hasattr(each.node, "lineno"):
                start = definition(jit)
                line = (start.line or 0) + each.node.lineno - 1
                return Finding(message or _unexplained(chain, jit, each.node.lineno), start.file, line)
        return Finding(message)
    told = [found for found in _DIAGNOSTIC.findall(log) if found[0] in files]
    if told:
        file, line, text = told[0]
        return Finding(clean(text, kernel), file, int(line))
    if reasons := _PTXAS.findall(f"{error}\n{log}"):
        return Finding(clean("ptxas: " + "\n".join(dict.fromkeys(reasons)), kernel))
    if "PassManager::run failed" in message:
        reasons = [each for each in dict.fromkeys(re.findall(r"error: (.+)", log)) if "MLIR pass pipeline" not in each]
        message = clean("\n".join(reasons) or "a pass of the compiler failed and gave no reason", kernel)
    for jit in own:
        for pattern in _NAMED:
            if (name := pattern.search(message)) and (line := _mention(jit, name[1].rpartition(".")[2])):
                return Finding(message, definition(jit).file, line)
    return Finding(message)


def clean(message: str, kernel: Any = None) -> str:
    """The first lines of a message without addresses, folders and Triton's inner names."""
    if kernel is not None:
        message = message.replace("dynamic_func()", f"{kernel.__name__}()")
    if wrapped := _REPR.fullmatch(message.strip()):
        message = wrapped[2]
    message = _FOLDERS.sub("", _ADDRESS.sub("", _ADVICE.sub("", message)))
    lines = [line.rstrip() for line in message.splitlines() if line.strip()]
    return "\n".join(lines[:_MAX_LINES])[:_MAX_CHARACTERS]


def text_of(error: BaseException) -> str:
    """An exception's own words, "" where it has none."""
    if isinstance(error, CompilationError):
        return str(error.error_message or "")
    if isinstance(error, KeyError) and error.args and " " in str(error.args[0]):
        return str(error.args[0])  # a sentence, which str() would quote
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - __str__ is the submission's code
        return "(its message could not be read)"


def _chain(error: BaseException | None) -> Iterator[Any]:
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _deepest_text(chain: list[BaseException]) -> str:
    return next((text for text in map(text_of, reversed(chain)) if text), "")


def _unexplained(chain: list[BaseException], jit: Any, line: int) -> str:
    source = jit.src.splitlines()[line - 1].strip()
    return f"{type(chain[-1]).__name__} while compiling `{source}`"


def _mention(jit: Any, name: str) -> int | None:
    """The first line of a kernel that uses a name."""
    for node in ast.walk(ast.parse(jit.src)):
        match node:
            case ast.Name(id=found) | ast.Attribute(attr=found) if found == name:
                return (definition(jit).line or 0) + node.lineno - 1
    return None


def file_name(path: str | None) -> str:
    """A path without its folder."""
    return Path(path).name if path else ""
