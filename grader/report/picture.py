"""A picture of a wrong output as SVG: what was expected, what was seen, and how far apart they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from math import inf, isfinite, isnan, log10
from xml.sax.saxutils import escape

import torch
from torch import Tensor

from ..counterexample import Grid

MOST = (64, 64)  # tiles
PANEL = 260.0  # pixels
GAP, TOP, BOTTOM = 24.0, 58.0, 64.0
NAN, INFINITE, RIGHT = "#7b3294", "#d95f0e", "#e8e8e8"


def svg(grid: Grid, title: str, where: str) -> str:
    """Three panels over one legend. The colours of expected and seen are on one scale."""
    low, high = _range(grid.expected)
    panels: list[tuple[str, Tensor, Callable[[float], str]]] = [
        ("expected", grid.expected, lambda value: _value_colour(value, low, high)),
        ("seen", grid.seen, lambda value: _value_colour(value, low, high)),
        ("error / allowed", grid.excess, _error_colour),
    ]
    rows, columns = grid.seen.shape
    cell = min(PANEL / columns, PANEL / rows)
    width, height = max(cell, PANEL / columns if rows == 1 else cell) * columns, max(cell * rows, 14.0)
    total = 3 * PANEL + 4 * GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total:.0f}" height="{TOP + height + BOTTOM:.0f}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="100%" height="100%" fill="white"/><text x="{GAP}" y="20" font-size="13">{escape(title)}</text>',
    ]
    for number, (name, values, colour) in enumerate(panels):
        left = GAP + number * (PANEL + GAP)
        parts.append(f'<text x="{left:.1f}" y="{TOP - 8}">{name}</text>')
        parts.extend(_cells(values, colour, left, width / columns, height / rows))
        parts.append(
            f'<rect x="{left:.1f}" y="{TOP}" width="{width:.2f}" height="{height:.2f}" fill="none" stroke="#444"/>'
        )
    each = "" if grid.tile == (1, 1) else f" Each cell is the worst of {grid.tile[0]} × {grid.tile[1]} elements."
    under = TOP + height + 20
    parts.append(f'<text x="{GAP}" y="{under:.1f}">{escape(f"shape {list(grid.shape)}; wrong: {where}.{each}")}</text>')
    parts.extend(_legend(under + 20, low, high))
    return "\n".join([*parts, "</svg>\n"])


def _cells(values: Tensor, colour: Callable[[float], str], left: float, wide: float, tall: float) -> Iterator[str]:
    """One path a colour, in units of cells; neighbours of one colour in one stroke."""
    strokes: dict[str, list[str]] = {}
    for row, line in enumerate(values.tolist()):
        column = 0
        for shade, run in groupby(map(colour, line)):
            length = len(list(run))
            strokes.setdefault(shade, []).append(f"M{column} {row}h{length}v1h-{length}z")
            column += length
    scale = f"translate({left:.1f} {TOP}) scale({wide:.4f} {tall:.4f})"
    yield f'<g transform="{scale}" shape-rendering="crispEdges">'
    yield from (f'<path fill="{shade}" d="{"".join(moves)}"/>' for shade, moves in strokes.items())
    yield "</g>"


def _legend(y: float, low: float, high: float) -> Iterator[str]:
    entries = [(_value_colour(low, low, high), f"{low:.3g}"), (_value_colour(high, low, high), f"{high:.3g}"),
               (NAN, "NaN"), (INFINITE, "infinite"), (RIGHT, "right"), (_error_colour(2.0), "just wrong"),
               (_error_colour(1e6), "10⁶ × allowed")]  # fmt: skip
    x = GAP
    for colour, text in entries:
        yield f'<rect x="{x:.0f}" y="{y - 10:.0f}" width="12" height="12" fill="{colour}" stroke="#999"/>'
        yield f'<text x="{x + 17:.0f}" y="{y:.0f}">{text}</text>'
        x += 40 + 7.5 * len(text)


def _range(values: Tensor) -> tuple[float, float]:
    finite = values[torch.isfinite(values)]
    if not finite.numel():
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    return (low, high) if high > low else (low, low + 1.0)


def _value_colour(value: float, low: float, high: float) -> str:
    if isnan(value):
        return NAN
    if not isfinite(value):
        return INFINITE
    share = min(1.0, max(0.0, (value - low) / (high - low)))
    return _mixed((247, 251, 255), (8, 48, 107), round(share * 32) / 32)


def _error_colour(excess: float) -> str:
    if isnan(excess):
        return "white"
    if excess <= 1:
        return RIGHT
    share = 1.0 if excess == inf else min(1.0, log10(excess) / 6)
    return _mixed((254, 217, 142), (153, 0, 13), round(share * 16) / 16)


def _mixed(start: tuple[int, int, int], end: tuple[int, int, int], share: float) -> str:
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(start, end, strict=True))
