"""Trusted side: the pitfalls that a hint can name, with what to do; `docs/pitfalls.md` explains them at length."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PAGE = "docs/pitfalls.md"

ADVICE: Mapping[str, str] = {
    "missing_mask_load":
        "Give tl.load a mask that is true for the tensor's own elements only, in every dimension, as in "
        "`mask=offsets < n`.",
    "missing_mask_store":
        "Give tl.store a mask that is true for the tensor's own elements only, in every dimension, as in "
        "`mask=offsets < n`.",
    "wrong_fill":
        "Give masked lanes a value that changes nothing: `other=0.0` in a sum, `other=float('-inf')` before a "
        "maximum or an exponential.",
    "tail_unwritten":
        "Loop over triton.cdiv(n, BLOCK) blocks, the last one masked.",
    "tail_dropped":
        "Loop over triton.cdiv(n, BLOCK) blocks, the last one masked, instead of n // BLOCK whole ones.",
    "grid_off_by_one":
        "Launch triton.cdiv(n, BLOCK) programs, and count them from 0.",
    "first_block_only":
        "A size may be larger than a block: loop over blocks, or launch one program for each.",
    "unwritten_output":
        "Check that the kernel gets the tensor that is returned, not a copy of it (.to, .contiguous), in the place of "
        "the parameter that it stores to, that its mask is not always false, and that what atomics add to is zero at "
        "first: torch.zeros, not reset_to_zero, which is for the tuning.",
    "strides_ignored":
        "Pass x.stride(i) of every dimension to the kernel and multiply each index by its own, or make a contiguous "
        "copy first.",
    "strides_swapped":
        "Compare the order of the strides at the launch with that of the kernel's parameters.",
    "transposed":
        "Compare the indices and strides of the store with those of the shape that is asked for.",
    "wrong_axis":
        "Check along which axis the kernel reduces and what one program works on.",
    "low_precision":
        "Convert to float32 after loading and accumulate in float32; convert back once, at the store.",
    "overflow":
        "exp() of a large number is infinite and of a very small one 0: subtract the row's own maximum first, or "
        "rewrite the formula so that exp() only gets numbers ≤ 0. Squares and sums belong in float32.",
    "inf_minus_inf":
        "Where a maximum can be −∞, put 0 in its place before subtracting it.",
    "race":
        "Let one program own each element, add with tl.atomic_add, or write partial results and add them up in a "
        "second launch.",
}  # fmt: skip


@dataclass(frozen=True)
class Hint:
    """A pitfall's name, "" where the page has none for it, and what to do about it, in one or two sentences."""

    pitfall: str
    text: str

    def __str__(self) -> str:
        return f"{self.text} ({PAGE}#{self.pitfall})" if self.pitfall else self.text


def hint(pitfall: str, seen: str) -> Hint:
    """What was seen, and the pitfall's advice."""
    return Hint(pitfall, f"{seen} {ADVICE[pitfall]}")


def pitfall_of(mistake: str) -> str:
    """The pitfall that a mistake of an exercise shows: its name, without the block size it was worked out for."""
    return re.sub(r"_\d+$", "", mistake)


def explained(pitfall: str) -> bool:
    """Whether the page says more about a pitfall than a hint does. About the mistakes of a new exercise it need not."""
    return pitfall in ADVICE or f'<a id="{pitfall}"></a>' in _page()


@cache
def _page() -> str:
    path = Path(__file__).parent.parent.parent / PAGE
    return path.read_text("utf-8") if path.is_file() else ""  # a wheel has no documents
