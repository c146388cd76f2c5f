"""Statistics of a class: who fails which check and how, median speedups, histograms. Trusted side, pure."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from ..verdict import Status
from .book import Row

BINS = 10


def of_class(rows: Sequence[Row]) -> dict[str, Any]:
    """Counts per exercise and check, of submissions: one fails a check where it fails it in any dtype."""
    statuses: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    speedups: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        result = row.result
        for name, exercise in result.exercises.items() if result else ():
            by_check: dict[str, list[Status]] = defaultdict(list)
            for item in exercise.items:
                by_check[item.check].append(item.status)
                if "speedup" in item.evidence:
                    speedups[f"{name} {item.benchmark}"].append(float(item.evidence["speedup"]))
            for check, found in by_check.items():
                statuses[name, check][_worst(found)] += 1
    totals = [row.total for row in rows if row.total is not None]
    maximum = max((row.maximum for row in rows), default=0.0)
    return {
        "submissions": dict(Counter(row.status for row in rows)),
        "total": _summary(totals) | {"histogram": _histogram(totals, 0.0, maximum)},
        "checks": [
            {
                "exercise": name,
                "check": check,
                "passed": counts[Status.PASSED],
                "failed": sum(counts.values()) - counts[Status.PASSED] - counts[Status.NOT_MEASURED],
                "not_measured": counts[Status.NOT_MEASURED],
                "statuses": dict(counts.most_common()),
            }
            for (name, check), counts in statuses.items()
        ],
        "speedups": {
            name: _summary(values) | {"histogram": _histogram(values, 0.0, max(values))}
            for name, values in speedups.items()
        },
    }


def as_text(facts: dict[str, Any]) -> str:
    """The same to read: the checks that most submissions fail come first."""
    lines = [", ".join(f"{count} {status}" for status, count in facts["submissions"].items())]
    total = facts["total"]
    if total["count"]:
        lines.append(f"total: median {total['median']:.1f}, from {total['least']:.1f} to {total['most']:.1f}")
        lines += _bars(total["histogram"])
    lines.append("\ncheck                          failed  passed  how")
    for one in sorted(facts["checks"], key=lambda one: -one["failed"]):
        how = ", ".join(
            f"{status} {count}" for status, count in one["statuses"].items() if status not in ("passed", "not_measured")
        )
        lines.append(f"{one['exercise'] + ' ' + one['check']:<30} {one['failed']:>6}  {one['passed']:>6}  {how}")
    for name, speedup in facts["speedups"].items():
        lines.append(f"\nspeedup of {name}: median {speedup['median']:.2f} of {speedup['count']}")
        lines += _bars(speedup["histogram"])
    return "\n".join(lines) + "\n"


def _worst(found: Sequence[Status]) -> Status:
    """The first that failed, else passed; not measured only where nothing else was."""
    order = {Status.PASSED: 1, Status.NOT_MEASURED: 2}
    return min(found, key=lambda status: order.get(status, 0))


def _summary(values: Sequence[float]) -> dict[str, Any]:
    if not values:
        return {"count": 0}
    return {"count": len(values), "median": statistics.median(values), "least": min(values), "most": max(values)}


def _histogram(values: Sequence[float], low: float, high: float) -> list[dict[str, float]]:
    if high <= low:
        return []
    width = (high - low) / BINS
    counts = Counter(max(0, min(BINS - 1, int((value - low) / width))) for value in values)
    return [{"from": low + bin_ * width, "to": low + (bin_ + 1) * width, "count": counts[bin_]} for bin_ in range(BINS)]


def _bars(histogram: Sequence[dict[str, float]]) -> list[str]:
    most = max((one["count"] for one in histogram), default=0) or 1
    return [
        f"  {one['from']:>7.1f} – {one['to']:<7.1f} {'█' * round(30 * one['count'] / most)} {int(one['count'])}"
        for one in histogram
    ]
