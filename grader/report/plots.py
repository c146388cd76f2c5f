"""Plots as SVG without a library: a few kilobytes each, in the page's own colours, so that dark mode and print work.

Every plot has its content in words as its label, for those who don't see it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, floor, log, log10
from typing import Any

from markupsafe import Markup, escape

from ..hardware import Gpu

WIDTH = 640
Facts = Mapping[str, Any]
Scale = Callable[[float], float]


def speed_bar(facts: Facts) -> Markup:
    """The speedup with its interval, against the floor and the target, on a logarithmic axis."""
    low, high = min(facts["low"], facts["floor"]) / 1.25, max(facts["high"], facts["target"]) * 1.25
    x = _log_scale(low, high, 10, WIDTH - 10)
    left, right = x(facts["floor"]), x(facts["target"])
    body = [
        _rect(x(low), 22, x(high) - x(low), 20, "track"),
        _rect(left, 22, right - left, 20, "band"),
        _rect(x(low), 27, x(facts["speedup"]) - x(low), 10, "you"),
        _line(x(facts["low"]), 32, x(facts["high"]), 32, "whisker"),
        *(_line(x(facts[end]), 26, x(facts[end]), 38, "whisker") for end in ("low", "high")),
        *(_line(at, 18, at, 46, "mark") for at in (left, right)),
        _text(left, 14, f"floor {facts['floor']:g}×", _anchor(left)),
        _text(right, 14, f"target {facts['target']:g}×", _anchor(right)),
        _text(x(facts["speedup"]), 60, f"{facts['speedup']:.2f}×", _anchor(x(facts["speedup"]))),
    ]
    label = (
        f"speedup {facts['speedup']:.2f} over {facts['baseline']}, interval {facts['low']:.2f} to {facts['high']:.2f}; "
        f"floor {facts['floor']:g}, target {facts['target']:g}"
    )
    return _svg(66, label, body)


def roofline(timed: Sequence[tuple[str, str, Facts]], gpu: Gpu) -> Markup:
    """What each timed problem (name, dtype, evidence) reaches, under what the GPU can do at its intensity."""
    points = [
        (name, 1e3 * facts["tflop_s"] / facts["gb_s"], facts["tflop_s"], facts["time_us"] / facts["baseline_us"])
        for name, _, facts in timed
    ]
    peak = max(gpu.tflop_s[dtype] for _, dtype, _ in timed)
    ridge = 1e3 * peak / gpu.bandwidth_gb_s
    low_x, high_x = min(p[1] for p in points) / 4, max(ridge, *(p[1] for p in points)) * 4
    roof_low = min(peak, low_x * gpu.bandwidth_gb_s / 1e3)
    low_y = min(roof_low, *(p[2] * min(1.0, p[3]) for p in points)) / 1.6
    x, y = _log_scale(low_x, high_x, 60, WIDTH - 12), _log_scale(low_y, peak * 2, 250, 12)
    corner = min(max(ridge, low_x), high_x)
    roof = f"M{x(low_x):.1f} {y(roof_low):.1f} L{x(corner):.1f} {y(peak):.1f} L{x(high_x):.1f} {y(peak):.1f}"
    body = [
        *_axes(x, y, (low_x, high_x), (low_y, peak * 2), "FLOP per byte", "TFLOP/s"),
        f'<path d="{roof}" class="roof"/>',
    ]
    numbers: dict[tuple[float, float], list[str]] = {}  # of points on top of each other, one label
    for number, (_, intensity, rate, baseline) in enumerate(points, 1):
        body += [
            _circle(x(intensity), y(rate * baseline), 4, "base"),
            _circle(x(intensity), y(rate), 5, "point"),
        ]
        at = (round(x(intensity), -1), round(y(rate), -1))
        numbers[at] = [*numbers.get(at, []), str(number)]
    body += [_text(left + 14, top + 4, ", ".join(found)) for (left, top), found in numbers.items()]
    label = "roofline: " + "; ".join(f"{name} reaches {rate:.3g} TFLOP/s at {intensity:.3g} FLOP per byte"
                                     for name, intensity, rate, _ in points)  # fmt: skip
    return _svg(290, label, body)


def scaling(timed: Sequence[tuple[str, str, Facts]]) -> Markup:
    """Time against the least bytes moved: the submission, the baseline, and the GPU's limit."""
    rows = sorted(((facts["gb_s"] * facts["time_us"] / 1e3, facts) for _, _, facts in timed), key=lambda row: row[0])
    series = (("yours", "time_us", "you-line"), ("baseline", "baseline_us", "base-line"), ("limit", "least_us", "roof"))
    times = [facts[key] for _, facts in rows for _, key, _ in series]
    ends_x, ends_y = (rows[0][0] / 1.5, rows[-1][0] * 1.5), (min(times) / 1.5, max(times) * 1.5)
    x, y = _log_scale(*ends_x, 60, WIDTH - 70), _log_scale(*ends_y, 250, 12)
    body = _axes(x, y, ends_x, ends_y, "MB moved at least", "µs")
    for name, key, style in series:
        path = " L".join(f"{x(size):.1f} {y(facts[key]):.1f}" for size, facts in rows)
        body.append(f'<path d="M{path}" class="{style}"/>')
        body += [
            f'<circle cx="{x(size):.1f}" cy="{y(facts[key]):.1f}" r="3" class="{style} dot"/>' for size, facts in rows
        ]
        body.append(_text(x(rows[-1][0]) + 8, y(rows[-1][1][key]) + 4, name))
    label = "time by size: " + "; ".join(
        f"{size:.4g} MB: {facts['time_us']:.1f} µs, baseline {facts['baseline_us']:.1f}, limit {facts['least_us']:.1f}"
        for size, facts in rows
    )
    return _svg(290, label, body)


def points_histogram(shares: Sequence[float], bins: int = 20) -> Markup:
    """How many submissions earned which share (0 to 1) of the maximum."""
    counts = [0] * bins
    for share in shares:
        counts[min(bins - 1, max(0, int(share * bins)))] += 1
    edges = [i / bins for i in range(bins + 1)]
    label = "points: " + ", ".join(f"{edges[i]:.0%} to {edges[i + 1]:.0%}: {n}" for i, n in enumerate(counts) if n)
    x: Scale = lambda share: 40 + share * (WIDTH - 60)  # noqa: E731
    ticks = [(share / 100, f"{share} %") for share in range(0, 101, 20)]
    return _histogram(counts, edges, x, ticks, label)


def speed_histogram(speedups: Sequence[float], floor_at: float, target: float, bins: int = 24) -> Markup:
    """How many submissions reached which speedup, on a logarithmic axis with the floor and the target."""
    low, high = min(*speedups, floor_at) / 1.1, max(*speedups, target) * 1.1
    step = (high / low) ** (1 / bins)
    counts = [0] * bins
    for value in speedups:
        counts[min(bins - 1, int(log(value / low) / log(step)))] += 1
    edges = [low * step**i for i in range(bins + 1)]
    x = _log_scale(low, high, 40, WIDTH - 20)
    label = f"speedups of {len(speedups)} submissions; floor {floor_at:g}, target {target:g}: " + ", ".join(
        f"{edges[i]:.2g} to {edges[i + 1]:.2g}: {n}" for i, n in enumerate(counts) if n
    )
    marks = [(floor_at, f"floor {floor_at:g}×"), (target, f"target {target:g}×")]
    return _histogram(counts, edges, x, [(v, f"{v:g}×") for v in _ticks(low, high)], label, marks)


def _histogram(counts: Sequence[int], edges: Sequence[float], x: Scale, ticks: Sequence[tuple[float, str]], label: str,
               marks: Sequence[tuple[float, str]] = ()) -> Markup:  # fmt: skip
    most = max(1, *counts)
    body = [_line(x(edges[0]), 140, x(edges[-1]), 140, "axis")]
    for i, count in enumerate(counts):
        height = 104 * count / most
        left, right = x(edges[i]), x(edges[i + 1])
        if count:
            body += [_rect(left + 1, 140 - height, max(1.0, right - left - 2), height, "you"),
                     _text((left + right) / 2, 136 - height, str(count), "middle")]  # fmt: skip
    body += [_text(x(at), 156, text, "middle") for at, text in ticks]
    for at, text in marks:
        body += [_line(x(at), 16, x(at), 140, "mark"), _text(x(at), 12, text, _anchor(x(at)))]
    return _svg(162, label, body)


def _axes(
    x: Scale, y: Scale, ends_x: tuple[float, float], ends_y: tuple[float, float], name_x: str, name_y: str
) -> list[str]:
    left, right, bottom, top = x(ends_x[0]), x(ends_x[1]), y(ends_y[0]), y(ends_y[1])
    lines = [_line(left, bottom, right, bottom, "axis"), _line(left, bottom, left, top, "axis")]
    for value in _ticks(*ends_x):
        lines += [_line(x(value), bottom, x(value), top, "grid"), _text(x(value), bottom + 16, f"{value:g}", "middle")]
    for value in _ticks(*ends_y):
        lines += [_line(left, y(value), right, y(value), "grid"), _text(left - 6, y(value) + 4, f"{value:g}", "end")]
    return [*lines, _text(right, bottom + 34, name_x, "end"), _text(left + 6, top + 10, name_y)]


def _ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten, or the powers alone where that would be many."""
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    steps = (1, 2, 5) if high / low < 200 else (1,)
    return [found for n in powers for step in steps if low <= (found := step * 10.0**n) <= high]


def _log_scale(low: float, high: float, start: float, end: float) -> Scale:
    return lambda value: start + (end - start) * log(value / low) / log(high / low)


def _anchor(at: float) -> str:
    return "start" if at < 60 else "end" if at > WIDTH - 60 else "middle"


def _svg(height: int, label: str, body: Sequence[str]) -> Markup:
    return Markup(f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">{"".join(body)}</svg>')  # noqa: S704 - built from numbers and escaped text only


def _rect(left: float, top: float, width: float, height: float, style: str) -> str:
    return f'<rect x="{left:.1f}" y="{top:.1f}" width="{max(0.0, width):.1f}" height="{height:.1f}" class="{style}"/>'


def _line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{style}"/>'


def _circle(x: float, y: float, radius: float, style: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" class="{style}"/>'


def _text(left: float, top: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{left:.1f}" y="{top:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
