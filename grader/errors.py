"""Everything the grader raises for bad input, on one page. Each prints as one line: what, where, and the remedy."""

from __future__ import annotations

from pathlib import Path


class GraderError(Exception):
    """Bad input from the person at the keyboard; never a fault of a submission."""


class _FileError(GraderError):
    """A file that can't be used; names it and, where it is known, the line."""

    def __init__(self, path: Path, line: int | None, problem: str) -> None:
        super().__init__(f"{path}{'' if line is None else f':{line}'}: {problem}")


class RubricError(_FileError):
    """A rubric that can't be used."""


class ClusterError(_FileError):
    """A file of `--cluster` that can't be used."""


class SubmissionError(GraderError):
    """A submission folder that can't be read."""


class ArchiveError(GraderError):
    """An archive, or a member of it, that is not unpacked; the message is the reason, for the book."""


class HandinError(GraderError):
    """What was handed in can't be graded; the message is the reason, for the book."""


class ResultError(GraderError):
    """A result.json that can't be used; names the file."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")


class ReportError(GraderError):
    """A report that can't be made of what was given."""


class ReleaseError(GraderError):
    """A handout that must not go out, or can't be made; names what is wrong and where."""


class SelectionError(GraderError):
    """An option that names something which does not exist."""


class InfrastructureError(Exception):
    """The grader itself failed. Becomes the status `infrastructure_error`, never points lost."""
