"""JUnit XML: a suite an exercise. Points are properties of the suite, the only place where the schemas allow any."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from ..verdict import Status
from .text import number, one_line
from .view import Entry, View
from .words import details


def render(view: View) -> str:
    """The file. What could not be measured is skipped, a fault of the grader is an error."""
    root = ET.Element("testsuites", name=view.submission)
    for exercise, entries in view.by_exercise().items():
        statuses = [entry.item.status for entry in entries]
        suite = ET.SubElement(
            root, "testsuite", name=exercise, tests=str(len(entries)),
            failures=str(sum(entry.failed for entry in entries)),
            errors=str(statuses.count(Status.INFRASTRUCTURE_ERROR)),
            skipped=str(statuses.count(Status.NOT_MEASURED)),
            time=f"{sum(entry.item.seconds for entry in entries):.3f}", timestamp=view.finished.partition("+")[0],
        )  # fmt: skip
        properties = ET.SubElement(suite, "properties")
        for name, value in _points(entries):
            ET.SubElement(properties, "property", name=name, value=value)
        for entry in entries:
            _case(suite, entry)
    ET.indent(root, " ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _points(entries: list[Entry]) -> list[tuple[str, str]]:
    found = [
        ("points", number(sum(entry.item.points for entry in entries))),
        ("max_points", number(sum(entry.item.max_points for entry in entries))),
    ]
    for entry in entries:
        found += [(f"points[{entry.name}]", f"{entry.item.points:g}"),
                  (f"max_points[{entry.name}]", f"{entry.item.max_points:g}")]  # fmt: skip
    return found


def _case(suite: ET.Element, entry: Entry) -> None:
    item = entry.item
    case = ET.SubElement(suite, "testcase", classname=entry.exercise, name=entry.name, time=f"{item.seconds:.3f}")
    message = one_line(item.message)
    if item.status is Status.NOT_MEASURED:
        ET.SubElement(case, "skipped", message=message)
    elif item.status is Status.INFRASTRUCTURE_ERROR:
        ET.SubElement(case, "error", type=item.status.value, message=message).text = details(entry)
    elif entry.failed:
        ET.SubElement(case, "failure", type=item.status.value, message=message).text = details(entry)
