"""How the worker puts a submission's exceptions into words, whatever they are like."""

from __future__ import annotations

import pytest

from grader.worker.compiling import errors
from grader.worker.entry import describe


class Mute(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("error", "type_name", "message"),
    [(ValueError("no"), "ValueError", "no"), (SyntaxError(), "SyntaxError", "None"),
     (SyntaxError("bad input"), "SyntaxError", "bad input"), (Mute(), "Mute", "(its message could not be read)"),
     (SystemExit(3), "SystemExit", "3")],
)  # fmt: skip
def test_every_exception_has_words(error, type_name, message):
    found = describe(error, "/nowhere")
    assert (found["type"], found["message"]) == (type_name, message)
    assert isinstance(errors.text_of(error), str)
