"""Where the wrong elements of an output are: in words, and as a map of characters. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

LEAST_BLOCK = 4
MOST_RANGES = 4
AXES = {1: ("elements",), 2: ("rows", "columns")}
# From the right to the badly wrong: an error of up to 1, 10, 1000 times what is allowed, and beyond.
SHADES = "·░▒▓█"
NOT_A_NUMBER, INFINITE = "N", "∞"


@dataclass(frozen=True)
class Grid:
    """A matrix of values, each the worst of a tile of elements: what is shown of an output. All are float64.

    `excess` is the error in units of what is allowed: at most 1 where right, infinite where a number is missing.
    """

    seen: Tensor
    expected: Tensor
    excess: Tensor
    tile: tuple[int, int]
    shape: tuple[int, ...]


def where_wrong(wrong: Tensor) -> str:
    """The wrong elements in words: `columns 1024–1026 of every row, the last partial block`."""
    if wrong.dim() == 0 or bool(wrong.all()):
        return "every element is wrong"
    names = AXES.get(wrong.dim()) or tuple(f"axis {axis}" for axis in range(wrong.dim()))
    hit = [wrong.movedim(axis, 0).flatten(1).any(1) if wrong.dim() > 1 else wrong for axis in range(wrong.dim())]
    indices = [each.nonzero().flatten().tolist() for each in hit]
    whole = [len(each) == size for each, size in zip(indices, wrong.shape, strict=True)]
    product = 1
    for each in indices:
        product *= len(each)
    count = int(wrong.sum())
    parts = [
        f"{name if len(each) > 1 else _singular(name)} {_ranges(each)}"
        for name, each, all_of in zip(names, indices, whole, strict=True)
        if not all_of
    ]
    if count == product:
        every = [name for name, all_of in zip(names, whole, strict=True) if all_of]
        text = " and ".join(parts) + (f" of every {_singular(every[-1])}" if every and wrong.dim() == 2 else "")
        tails = [_tail(each, size) for each, size in zip(indices, wrong.shape, strict=True) if len(each) < size]
        return text + next((f", {tail}" for tail in tails if tail), "")
    inside = f" in {' and '.join(parts)}" if parts else ", in all parts of it"
    return f"{count} of {wrong.numel()} elements{inside}"


def _singular(name: str) -> str:
    return name.removesuffix("s")


def _ranges(indices: Sequence[int]) -> str:
    step = indices[1] - indices[0] if len(indices) > 2 else 1
    if step > 1 and all(b - a == step for a, b in pairwise(indices)):
        return f"{indices[0]}, {indices[1]}, … {indices[-1]}"
    runs: list[list[int]] = []
    for index in indices:
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    shown = [str(low) if low == high else f"{low}–{high}" for low, high in runs[:MOST_RANGES]]
    return ", ".join(shown) + (f", … {runs[-1][1]}" if len(runs) > MOST_RANGES else "")


def _tail(indices: Sequence[int], size: int) -> str:
    """Whether these are the elements behind the last whole block of a usual size."""
    start = indices[0]
    if list(indices) != list(range(start, size)):
        return ""
    block = start & -start
    if block >= LEAST_BLOCK and size - start < block:
        return "the last partial block"
    return "the end"


def grid_of(seen: Tensor, expected: Tensor, allowed: Tensor, right: Tensor, most: tuple[int, int]) -> Grid:
    """An output as a matrix of at most `most` rows and columns. Leading dimensions become rows."""
    shape = tuple(seen.shape)
    excess = (seen - expected).abs() / allowed.clamp_min(torch.finfo(torch.float64).tiny)
    excess = torch.where(right, torch.nan_to_num(excess, nan=0.0, posinf=0.0).clamp_max(1.0),
                         torch.nan_to_num(excess, nan=torch.inf).clamp_min(1.0 + 1e-9))  # fmt: skip
    flat = [_as_matrix(each, most[1]) for each in (seen, expected, excess)]
    rows, columns = flat[0].shape
    tile = (-(-rows // most[0]), -(-columns // most[1]))
    tiles = [_tiles(each, tile) for each in flat]
    worst = tiles[2].nan_to_num(nan=-1.0, posinf=torch.finfo(torch.float64).max).argmax(-1, keepdim=True)
    picked = [each.gather(-1, worst).squeeze(-1) for each in tiles]
    return Grid(picked[0], picked[1], picked[2], tile, shape)


def _as_matrix(values: Tensor, width: int) -> Tensor:
    if values.dim() >= 2:
        return values.reshape(-1, values.shape[-1])
    flat = values.reshape(-1)
    width = min(width, max(1, flat.numel()))
    padding = -flat.numel() % width
    return torch.nn.functional.pad(flat, (0, padding), value=torch.nan).reshape(-1, width)


def _tiles(values: Tensor, tile: tuple[int, int]) -> Tensor:
    rows, columns = values.shape
    padded = torch.nn.functional.pad(values, (0, -columns % tile[1], 0, -rows % tile[0]), value=torch.nan)
    split = padded.reshape(padded.shape[0] // tile[0], tile[0], padded.shape[1] // tile[1], tile[1])
    return split.movedim(2, 1).flatten(2)


def heat_map(grid: Grid) -> list[str]:
    """One character a tile: how far off its worst element is, and what the characters mean."""
    lines = ["".join(_character(seen, excess) for seen, excess in zip(*row, strict=True))
             for row in zip(grid.seen.tolist(), grid.excess.tolist(), strict=True)]  # fmt: skip
    each = "" if grid.tile == (1, 1) else f"; a character is the worst of {grid.tile[0]} × {grid.tile[1]} elements"
    shown = set("".join(lines))
    meanings = dict(zip(SHADES, ("right", "≤ 10 × what is allowed", "≤ 1000 ×", "≤ 10⁶ ×", "more"), strict=True))
    meanings |= {NOT_A_NUMBER: "NaN", INFINITE: "infinite"}
    return [*lines, ", ".join(f"{sign} {text}" for sign, text in meanings.items() if sign in shown) + each]


def _character(seen: float, excess: float) -> str:
    if excess != excess:  # padding
        return " "
    if excess <= 1:
        return SHADES[0]
    if seen != seen:
        return NOT_A_NUMBER
    if abs(seen) == float("inf"):
        return INFINITE
    return SHADES[next((place for place, limit in enumerate((10, 1e3, 1e6), 1) if excess <= limit), 4)]
