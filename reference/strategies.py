"""Sizes around block edges and the layouts and values that go with each check, as Hypothesis strategies.

Kernels break at sizes that their block does not divide, so sizes are drawn at 1, at primes and at the powers of two
± 1 more often than elsewhere. Everything shrinks towards small, contiguous and normal.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from .exercise import Inputs, TensorSpec

ALIGNED = (16, 32, 64, 128, 256, 512, 1024)
RAGGED = tuple(sorted({1, 2, 3, 5, 7, 13, 37, 97, 251, 509, 1000, 1021, *(b + d for b in ALIGNED for d in (-1, 1))}))
STRIDED_LAYOUTS = ("padded", "transposed", "sliced", "expanded", "transposed_padded", "offset")


def aligned_size(most: int) -> st.SearchStrategy[int]:
    """A multiple of the usual block sizes, at most `most`."""
    return st.sampled_from([size for size in ALIGNED if size <= most])


def ragged_size(most: int) -> st.SearchStrategy[int]:
    """A size that is awkward for some block: 1, primes, powers of two ± 1, or anything, at most `most`."""
    return st.one_of(st.sampled_from([size for size in RAGGED if size <= most]), st.integers(1, most))


def size(check: str, most: int) -> st.SearchStrategy[int]:
    """The sizes that belong to a check."""
    return aligned_size(most) if check == "aligned" else ragged_size(most)


def layout(check: str, rank: int) -> st.SearchStrategy[str]:
    """Contiguous unless the check is `strided`; then any layout that exists for the rank."""
    if check != "strided":
        return st.just("contiguous")
    return st.sampled_from([name for name in STRIDED_LAYOUTS if rank >= 2 or not name.startswith("transposed")])


def values(check: str, extreme: Sequence[str]) -> st.SearchStrategy[str]:
    """Normal or shifted values, and the exercise's own list for `extreme`."""
    return st.sampled_from(extreme if check == "extreme" else ("normal", "shifted"))


def seeds() -> st.SearchStrategy[int]:
    """Seeds of the values of one case."""
    return st.integers(0, 2**31 - 1)


def inputs(*tensors: TensorSpec, seed: int = 0) -> Inputs:
    """Inputs without options, for the lists of edge cases."""
    return Inputs(tuple(tensors), seed)
