"""What `grader profile` found, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..profiling import KernelTime, Roofline
from ..sweep import Point


def show_kernels(console: Console, kernels: Sequence[KernelTime]) -> None:
    """A table of the kernels of one call, the longest first."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("time, µs", "share", "launches", "grid", "block", "regs", "kernel"):
        table.add_column(heading, justify="left" if heading == "kernel" else "right")
    for kernel in kernels:
        table.add_row(
            f"{kernel.time_us:.1f}",
            f"{kernel.share:.0%}",
            str(kernel.launches),
            "×".join(map(str, kernel.grid)) or "–",
            "×".join(map(str, kernel.block)) or "–",
            "–" if kernel.registers is None else str(kernel.registers),
            Text(f"{_short(kernel.name)}\n{kernel.says}" if kernel.says else _short(kernel.name)),
        )
    console.print(table)


def show_roofline(console: Console, gpu: str, reached: Roofline) -> None:
    """Two lines: what the call reaches, and what bounds it."""
    console.print(
        f"A call takes {reached.time_us:.1f} µs: {reached.gb_s:.0f} GB/s, {reached.tflop_s:.3g} TFLOP/s, "
        f"{reached.share:.0%} of the limit of {gpu} ({reached.least_us:.1f} µs)."
    )
    console.print(
        f"It does {reached.intensity:.3g} FLOP a byte; from {reached.ridge:.3g} on, arithmetic would be the limit: "
        f"it is bound by {reached.bound}."
    )


def show_sweep(console: Console, swept: Sequence[Point]) -> None:
    """One line a size, one column a player: the time and the part of the GPU's limit."""
    players = list(dict.fromkeys(point.player for point in swept))
    found = {(point.size, point.player): point for point in swept}
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("size", *(f"{player}, µs" for player in players)):
        table.add_column(heading, justify="right")
    for size in dict.fromkeys(point.size for point in swept):
        table.add_row(str(size), *(_cell(found[size, player]) for player in players))
    console.print(table)


def _cell(point: Point) -> str:
    if point.time_us is None or point.percent_of_limit is None:
        return "no memory"
    return f"{point.time_us:.1f} ({point.percent_of_limit:.0f} %)"


def _short(name: str) -> str:
    return name if len(name) <= 100 else name[:99] + "…"
