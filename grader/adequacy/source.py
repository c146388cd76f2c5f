"""A solution's source as syntax tree and text: where a node stands, and the source with one node replaced. Pure."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property

BEGIN, END = "# solution: begin", "# solution: end"
_ATOMS = (ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.Subscript)


@dataclass(frozen=True)
class Source:
    """The text of one solution. Columns of the tree count bytes, so positions here do too."""

    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text)

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """Each node's parent."""
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    @cached_property
    def _bytes(self) -> bytes:
        return self.text.encode()

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        for line in self._bytes.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        return starts

    @cached_property
    def solution_lines(self) -> set[int]:
        """The lines between `# solution: begin` and `# solution: end`."""
        inside, found = False, set()
        for number, line in enumerate(self.text.splitlines(), 1):
            inside = (inside or line.strip() == BEGIN) and line.strip() != END
            if inside:
                found.add(number)
        return found

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """First byte of a node and the first behind it."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._line_starts[node.lineno - 1] + node.col_offset
        return start, self._line_starts[node.end_lineno - 1] + node.end_col_offset

    def raw(self, node: ast.expr | ast.stmt) -> str:
        """The text of a node."""
        start, end = self.span(node)
        return self._bytes[start:end].decode()

    def of(self, node: ast.expr | ast.stmt) -> str:
        """The text of a node, in parentheses where it could be torn apart elsewhere."""
        text = self.raw(node)
        return text if isinstance(node, (*_ATOMS, ast.stmt)) else f"({text})"

    def replaced(self, node: ast.expr | ast.stmt, text: str) -> str:
        """The whole source with `text` in the place of a node."""
        start, end = self.span(node)
        return (self._bytes[:start] + text.encode() + self._bytes[end:]).decode()

    def lines_with(self, node: ast.expr | ast.stmt, text: str) -> tuple[str, str]:
        """The lines that a node stands on, as they are and with `text` in its place; white space is joined."""
        start, end = self.span(node)
        first = self._line_starts[node.lineno - 1]
        last = self._bytes.find(b"\n", end)
        before = self._bytes[first : last if last >= 0 else None].decode()
        after = (self._bytes[first:start] + text.encode() + self._bytes[end : last if last >= 0 else None]).decode()
        return " ".join(before.split()), " ".join(after.split())

    def functions_around(self, node: ast.AST) -> list[ast.FunctionDef]:
        """The functions that a node is inside of, innermost first."""
        found = []
        current: ast.AST | None = node
        while (current := self.parents.get(current)) if current is not None else None:
            if isinstance(current, ast.FunctionDef):
                found.append(current)
        return found

    def branches_around(self, node: ast.AST) -> list[str]:
        """The branches that a node is inside of: `if TMA`, `else of TMA`."""
        found = []
        child, parent = node, self.parents.get(node)
        while parent is not None:
            if isinstance(parent, ast.If):
                test = ast.unparse(parent.test)
                if child in parent.body:
                    found.append(f"if {test}")
                elif child in parent.orelse:
                    found.append(f"else of {test}")
            child, parent = parent, self.parents.get(parent)
        return found
