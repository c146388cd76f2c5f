"""The ledger: every grade ever given, every fault, override and hold. Rows are added, never changed. Trusted side.

SQLite by default, on a local disk (WAL does not work on network file systems); PostgreSQL by URL. Only the
coordinator writes. Needs the extra `staff`.
"""

from __future__ import annotations

import contextlib
import datetime
import json
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from sqlalchemy.dialects import postgresql, sqlite

from ..errors import GraderError

_TABLES = sql.MetaData()
_meta = sql.Table("meta", _TABLES, sql.Column("schema", sql.Integer, nullable=False))


def _table(name: str, *columns: sql.schema.SchemaItem) -> sql.Table:
    return sql.Table(
        name,
        _TABLES,
        sql.Column("id", sql.Integer, primary_key=True, autoincrement=True),
        sql.Column("at", sql.Text, nullable=False),
        *columns,
    )


def _text(name: str, *, nullable: bool = False) -> sql.Column[str]:
    return sql.Column(name, sql.Text, nullable=nullable)


def _number(name: str, *, nullable: bool = False) -> sql.Column[float]:
    return sql.Column(name, sql.Double, nullable=nullable)


_grades = _table(
    "grades", _text("submission"), _text("exercise"), _text("key"), _text("parts"), _number("earned"),
    _number("gradable"), _number("maximum"), _text("result"), _text("slot"),
    sql.UniqueConstraint("submission", "exercise", "key"),
)  # fmt: skip
_faults = _table("faults", _text("submission"), _text("exercises"), _text("slot"), _text("message"))
_overrides = _table(
    "overrides", _text("submission"), _text("exercise"), _number("points", nullable=True), _text("reason"),
    _text("author"),
)  # fmt: skip
_holds = _table(
    "holds", _text("submission"), sql.Column("held", sql.Boolean, nullable=False), _text("reason"), _text("author")
)
_runs = _table("runs", _text("seed", nullable=True), _text("rubric_sha256"), _text("device"))


def _create(connection: sql.Connection) -> None:
    _TABLES.create_all(connection)


# Each brings a ledger from the version that is its index to the next; what is released is never edited.
MIGRATIONS: list[Callable[[sql.Connection], None]] = [_create]


@dataclass(frozen=True)
class Grade:
    """What one exercise of a submission earned, under a key; `result` is a whole result of that exercise, as JSON."""

    submission: str
    exercise: str
    key: str
    parts: dict[str, str]
    earned: float
    gradable: float
    maximum: float
    result: str
    slot: str
    at: str = ""


@dataclass(frozen=True)
class Override:
    """Points that staff gave, for an exercise or, where it is "", for all. None takes an earlier one back."""

    submission: str
    exercise: str
    points: float | None
    reason: str
    author: str
    at: str = ""


@dataclass(frozen=True)
class Hold:
    """Whether a submission's grade is held back."""

    submission: str
    held: bool
    reason: str
    author: str
    at: str = ""


class Ledger:
    """An open ledger. Raises GraderError where it can't be opened or is of a newer grader."""

    def __init__(self, url: str) -> None:
        try:
            # A statement's parameters in an error's text would show the hidden seed.
            self._engine = sql.create_engine(url, hide_parameters=True)
            if self._engine.dialect.name == "sqlite":
                sql.event.listen(self._engine, "connect", _durable)
            elif self._engine.dialect.name != "postgresql":
                raise GraderError(f"--ledger {url}: only sqlite and postgresql are supported")
            with self._engine.begin() as connection:
                self._migrate(connection)
        except (sql.exc.ArgumentError, sql.exc.NoSuchModuleError):
            raise GraderError(f"--ledger {url}: is not a database URL; write sqlite:///FILE or postgresql+psycopg://…"
                              ) from None  # fmt: skip
        except ModuleNotFoundError as error:
            raise GraderError(f"--ledger: {error.name} is missing: pip install 'kernel-grader[postgres]'") from None
        except sql.exc.DBAPIError as error:
            raise GraderError(f"--ledger: can't be opened: {' '.join(str(error.orig).split())}") from None

    @classmethod
    def in_file(cls, path: Path) -> Ledger:
        """The SQLite ledger in a file, made if it is not there."""
        return cls(sql.URL.create("sqlite", database=str(path)).render_as_string())

    def _migrate(self, connection: sql.Connection) -> None:
        there = sql.inspect(connection).has_table("meta")
        version = connection.execute(sql.select(_meta.c.schema)).scalar() if there else 0
        if not isinstance(version, int):
            raise GraderError("the ledger is no grader's, or damaged: its table `meta` has no schema number")
        if version > len(MIGRATIONS):
            raise GraderError(
                f"the ledger has schema {version}, this grader knows {len(MIGRATIONS)}; update the grader"
            )
        if version < len(MIGRATIONS):
            for migrate in MIGRATIONS[version:]:
                migrate(connection)
            connection.execute(sql.delete(_meta))
            connection.execute(sql.insert(_meta).values(schema=len(MIGRATIONS)))
        inspected = sql.inspect(connection)
        for table in _TABLES.sorted_tables:
            there = inspected.has_table(table.name)
            found = {column["name"] for column in inspected.get_columns(table.name)} if there else set()
            if lacking := [column.name for column in table.c if column.name not in found]:
                raise GraderError(f"the ledger is no grader's, or damaged: its table `{table.name}` lacks {lacking[0]}")

    @contextlib.contextmanager
    def _begin(self) -> Iterator[sql.Connection]:
        """A transaction. Raises GraderError where the database fails: a full disk, another process's lock."""
        try:
            with self._engine.begin() as connection:
                yield connection
        except sql.exc.DBAPIError as error:
            raise GraderError(f"the ledger: {' '.join(str(error.orig).split())}; what was kept before is kept, "
                              "run the same command again") from None  # fmt: skip

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()

    def record(self, grades: Iterable[Grade]) -> None:
        """Add the grades of one submission, all or none. One whose key is there already changes nothing."""
        rows = [{**_row(grade), "parts": json.dumps(grade.parts, sort_keys=True)} for grade in grades]
        dialect = postgresql if self._engine.dialect.name == "postgresql" else sqlite
        with self._begin() as connection:
            for row in rows:
                connection.execute(dialect.insert(_grades).values(row).on_conflict_do_nothing())

    def grades(self, wanted: Container[tuple[str, str, str]] | None = None) -> list[Grade]:
        """All grades, oldest first, or those whose submission, exercise and key are wanted: results are large."""
        with self._begin() as connection:
            rows = connection.execution_options(yield_per=200).execute(_all_of(_grades)).mappings()
            return [
                Grade(**{**row, "parts": json.loads(row["parts"])})
                for row in rows
                if wanted is None or (row["submission"], row["exercise"], row["key"]) in wanted
            ]

    def last_parts(self) -> dict[tuple[str, str], dict[str, str]]:
        """What the last grade of each submission's exercise depended on."""
        query = sql.select(_grades.c.submission, _grades.c.exercise, _grades.c.parts).order_by(_grades.c.id)
        with self._begin() as connection:
            return {(row.submission, row.exercise): json.loads(row.parts) for row in connection.execute(query)}

    def keys(self) -> set[tuple[str, str, str]]:
        """Submission, exercise and key of every grade."""
        query = sql.select(_grades.c.submission, _grades.c.exercise, _grades.c.key)
        with self._begin() as connection:
            return {(row.submission, row.exercise, row.key) for row in connection.execute(query)}

    def add_fault(self, submission: str, exercises: Sequence[str], slot: str, message: str) -> None:
        """Note that the grader failed on a submission."""
        self._add(_faults, submission=submission, exercises=" ".join(exercises), slot=slot, message=message)

    def faults(self) -> dict[str, str]:
        """The last fault per submission."""
        return {row["submission"]: row["message"] for row in self._rows(_faults)}

    def add_override(self, override: Override) -> None:
        """Add an override; the last one for a submission's exercise counts."""
        self._add(_overrides, **_row(override))

    def overrides(self) -> list[Override]:
        """All overrides, oldest first."""
        return [Override(**row) for row in self._rows(_overrides)]

    def add_hold(self, hold: Hold) -> None:
        """Hold a submission back, or release it."""
        self._add(_holds, **_row(hold))

    def holds(self) -> dict[str, Hold]:
        """What is held back now."""
        last = {row["submission"]: Hold(**row) for row in self._rows(_holds)}
        return {submission: hold for submission, hold in last.items() if hold.held}

    def add_run(self, seed: int | None, rubric_sha256: str, device: str) -> None:
        """Note the start of a run; `seed` is the hidden one, None where there is none."""
        self._add(_runs, seed=None if seed is None else str(seed), rubric_sha256=rubric_sha256, device=device)

    def hidden_seed(self) -> int | None:
        """The hidden seed of the last run."""
        seeds = [row["seed"] for row in self._rows(_runs)]
        return None if not seeds or seeds[-1] is None else int(seeds[-1])

    def _add(self, table: sql.Table, **values: Any) -> None:
        with self._begin() as connection:
            connection.execute(sql.insert(table).values(at=_now(), **{k: v for k, v in values.items() if k != "at"}))

    def _rows(self, table: sql.Table) -> list[dict[str, Any]]:
        with self._begin() as connection:
            return [dict(row) for row in connection.execute(_all_of(table)).mappings()]


def _all_of(table: sql.Table) -> sql.Select[Any]:
    return sql.select(*(column for column in table.c if column.name != "id")).order_by(table.c.id)


def _row(value: Grade | Override | Hold) -> dict[str, Any]:
    return {**vars(value), "at": value.at or _now()}


def _durable(connection: Any, _: Any) -> None:
    """What is acknowledged survives kill -9 and a power cut."""
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=10000"):
        connection.execute(f"PRAGMA {pragma}")


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
