"""Reads YAML files that staff write, so that what is wrong in them can be said with its line. Trusted side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

from .errors import GraderError


def read_mapping(
    path: Path, error_at: Callable[[int | None, str], GraderError], *, start: str, option: str
) -> tuple[bytes, yaml.MappingNode]:
    """The bytes of a file that holds one mapping, and its nodes. Raises what `error_at` makes of a line and a problem.

    `start` is what the file should start with, `option` the command line's name for the file.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise error_at(None, f"can't be read: {error.strerror or error}; name another with {option}") from None
    try:
        root = yaml.compose(data.decode("utf-8"), Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        raise error_at(data[: error.start].count(b"\n") + 1, "is not UTF-8 text") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise error_at(line, f"is not YAML: {error.problem}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise error_at(None, f"is not YAML: {error}") from None
    if not isinstance(root, yaml.MappingNode):
        raise error_at(1, f"must be a mapping that starts with {start}")
    for key in _duplicate_keys(root):
        raise error_at(key.start_mark.line + 1, f"the key {key.value!r} is given twice; keep one")
    return data, root


def line_of(root: yaml.Node, place: tuple[str | int, ...]) -> int:
    """The line of the deepest node on the way to `place`: where a key is missing, that of its parent."""
    node, line = root, root.start_mark.line
    for part in place:
        if isinstance(node, yaml.MappingNode):
            found = next(((k, v) for k, v in node.value if k.value == str(part)), None)
            if found is None:
                break
            line, node = found[0].start_mark.line, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line
        else:
            break
    return line + 1


def _duplicate_keys(node: yaml.Node) -> Iterator[yaml.ScalarNode]:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    yield key
                seen.add(key.value)
            yield from _duplicate_keys(value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _duplicate_keys(value)
