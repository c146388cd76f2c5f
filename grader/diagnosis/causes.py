"""The causes in the order in which they are considered: what proves most comes first. Pure, but for the looks.

Proof is by value (the output equals what the cause gives) or by experiment (the case without what the cause needs
passes). What is neither gets no hint.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import sqrt

from reference.exercise import UNIT_ROUNDOFF, Case

from ..verdict import Status
from .coverage import truncated, unwritten
from .formulas import layouts_matter, misread, mistake, output_layout, transposed_shape
from .observation import CannotTellError, Looks, Observation, contiguous
from .pitfalls import Hint, hint

VALUES = (Status.WRONG_VALUES, Status.NOT_FINITE)
WITH_INFINITY = ("some_minus_inf", "masked_rows", "masked_start")
# The worker's words for a load or a store of what another program has stored.
SHARED = "another program of the same launch stored"


def find_cause(seen: Observation, looks: Looks) -> Hint | None:
    """The hint for a failure, if its cause is known."""
    try:
        return _find_cause(seen, looks)
    except CannotTellError:
        return None


def _find_cause(seen: Observation, looks: Looks) -> Hint | None:
    if seen.verdict.status is Status.WRONG_SHAPE:
        return transposed_shape(seen)
    if layouts_matter(seen.case.tensors):
        row_major = looks.at(contiguous(seen.case))
        if not row_major.verdict.passed:
            if row_major.verdict.status not in (*VALUES, Status.OUT_OF_BOUNDS):
                return None
            seen = row_major
        elif seen.verdict.status is Status.OUT_OF_BOUNDS or not _repeats(seen.case):
            return _layout(seen, looks) or _strides(seen)
    if seen.verdict.status is Status.OUT_OF_BOUNDS:
        return _access(seen, looks)
    causes: Sequence[Callable[[Observation, Looks], Hint | None]] = (
        _race, _infinity, mistake, _layout, unwritten, truncated, _precision, _magnitude,
    )  # fmt: skip
    return next((found for cause in causes if (found := cause(seen, looks)) is not None), None)


def _infinity(seen: Observation, looks: Looks) -> Hint | None:
    """NaN that comes of the −∞ in the inputs: before formulas are compared, which give NaN there too."""
    recipes = {spec.values for spec in seen.case.tensors}
    if seen.verdict.status is not Status.NOT_FINITE or not recipes & set(WITH_INFINITY):
        return None
    if not looks.at(_usual(seen.case)).verdict.passed:
        return None
    return hint("inf_minus_inf", "Where inputs are −∞ the result is NaN, which −∞ − (−∞) and 0 · ∞ give.")


def _repeats(case: Case) -> bool:
    """Whether a tensor repeats one row: row-major it has other values, so that a pass says nothing of the strides."""
    return any(spec.layout == "expanded" for spec in case.tensors)


def differing_runs() -> Hint:
    """The hint where the same case gave two results."""
    return hint("race", "Two runs of this case gave different results, so the order of programs matters.")


def _layout(seen: Observation, _: Looks) -> Hint | None:
    return misread(seen) or output_layout(seen)


def _strides(seen: Observation) -> Hint:
    named = ", ".join(
        f"{spec.name} has the strides {spec.geometry().strides}" for spec in seen.case.tensors if layouts_matter([spec])
    )
    return hint("strides_ignored", f"Row-major inputs with the same values pass, but here {named}.")


def _access(seen: Observation, looks: Looks) -> Hint | None:
    """The cause of an access outside a tensor, from the memory check's message."""
    fault = seen.facts.get("fault", "")
    found = re.match(r"([^:]+):(\d+): (load|store) outside '([^']*)'.*: (\d+) of (\d+) lanes", fault)
    if found is None:
        return None
    file, line, kind, name, lanes, active = found.groups()
    masked = _has_mask(_statement(seen.sources.get(file, b""), int(line)), kind)
    larger = looks.failing(seen)
    if larger is not None and larger.verdict.status in VALUES:
        return misread(larger)
    # Where blocks divide the sizes a mask changes nothing: then it is something else, unless there is no mask at all.
    if larger is not None and (masked or lanes == active):
        return None
    what = f"The mask of this {kind} lets through" if masked else f"This {kind} has no mask to keep out"
    return hint(f"missing_mask_{kind}", f"{what} lanes outside {name}.")


def _has_mask(statement: str, kind: str) -> bool:
    """Whether a load or store has a mask, by name or by position: tl.load(p, mask), tl.store(p, value, mask)."""
    if "mask" in statement:
        return True
    try:
        tree = ast.parse(statement.strip())
    except SyntaxError:
        return False
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    return any(call.func.attr == kind and len(call.args) > (1 if kind == "load" else 2) for call in calls)  # type: ignore[attr-defined]


def _statement(source: bytes, line: int) -> str:
    """The text of the call that starts in a line, up to its last bracket."""
    lines = source.decode(errors="replace").splitlines()[line - 1 : line + 9]
    text = ""
    for each in lines:
        text += each.partition("#")[0]
        if text.count("(") <= text.count(")"):
            break
    return text


def _race(seen: Observation, _: Looks) -> Hint | None:
    warning = next((text for text in seen.facts.get("warnings", ()) if SHARED in text), None)
    if warning is None or seen.wrong_output() is None:
        return None
    where, _, what = warning.partition(": ")
    return hint("race", f"{where} {what.split(';')[0]}.")


def _precision(seen: Observation, looks: Looks) -> Hint | None:
    """Sums in 16 bits: float32 passes, and the error is what roundings of that many terms add up to."""
    wrong, case = seen.wrong_output(), seen.case
    if wrong is None or case.dtype == "float32" or not bool(wrong.values[wrong.wrong].isfinite().all()):
        return None
    if bool((wrong.values[wrong.wrong] == 0).all()) or not looks.passes(replace(case, dtype="float32")):
        return None
    terms = seen.exercise.reduction_length(seen.exercise.shapes(case), **seen.exercise.options_of(case))
    # Roundings of random sign add up as a root; a sum of terms with one sign drifts, which 8 leaves room for.
    unit = UNIT_ROUNDOFF[case.dtype]
    if bool((wrong.errors > 8 * sqrt(terms) * unit * (wrong.expected.scale + wrong.expected.tolerance.tiny)).any()):
        return None
    short = _shortened(case)
    shorter = looks.at(short) if short is not None else None
    of_shorter = shorter.wrong_output() if shorter is not None else None
    if of_shorter is not None and of_shorter.errors.max() > wrong.errors.max():
        return None
    return hint("low_precision", f"The same case passes in float32, and the error is what {terms} roundings to "
                                 f"{case.dtype} add up to.")  # fmt: skip


def _shortened(case: Case) -> Case | None:
    """The case with an eighth of the terms, where that many are left."""
    length = case.tensors[0].shape[-1]
    if length < 16:
        return None
    sizes = {length: length // 8}
    return replace(case, tensors=tuple(replace(spec, shape=tuple(sizes.get(size, size) for size in spec.shape))
                                       for spec in case.tensors))  # fmt: skip


def _usual(case: Case) -> Case:
    """The case with values of usual size."""
    return replace(case, tensors=tuple(replace(spec, values="normal") for spec in case.tensors))


def _magnitude(seen: Observation, looks: Looks) -> Hint | None:
    """Numbers that are not finite, but are with inputs of usual size."""
    wrong = seen.wrong_output()
    if wrong is None or seen.verdict.status is not Status.NOT_FINITE:
        return None
    recipes = {spec.values for spec in seen.case.tensors}
    if recipes == {"normal"}:
        return None
    of_usual = looks.at(_usual(seen.case))
    if not of_usual.verdict.passed:
        return mistake(of_usual, looks) if of_usual.wrong_output() is not None else None
    return hint("overflow", "With inputs of usual size the result is right, so an intermediate value overflowed.")
