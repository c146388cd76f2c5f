"""`grader batch` from end to end: take in, find out what is not graded yet, grade that, write the book. Trusted side.

Everything that takes time is kept in the ledger as soon as it is known; the rest can be made again from it.
"""

from __future__ import annotations

import contextlib
import fcntl
import fnmatch
import hashlib
import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from ..errors import GraderError, HandinError
from ..items import items_of
from ..result import ExerciseResult, Result, TotalsResult
from ..rubric import LoadedRubric, load_rubric
from . import book, gradebook, isolation, leaderboard, roster, say, staging, statistics
from .cluster_file import ParslFile, Slurm, load_cluster_file, require_parsl
from .entry import Class, Entry, Who, load_class, replace_text
from .intake import TakenIn, take_in
from .intake.handed import Person
from .keys import Key, Keys
from .ledger import Grade, Ledger
from .progress import Shown
from .schedule import Event, Schedule
from .similarity import compare_class
from .slots import PYTEST_GRADER, Grader, Job, Slot, check_installed, cpu_slots, find_gpus, gpu_slots

if TYPE_CHECKING:
    from .cluster import Cluster


@dataclass(frozen=True)
class Options:
    """What `grader batch` was asked for."""

    submissions: Path
    out: Path
    root: Path
    rubric: Path
    kind: str | None = None
    attempt: int | None = None
    due: str | None = None
    roster: Path | None = None
    leaderboard: Path | None = None
    ledger: str | None = None
    jobs: int | None = None
    gpus: str = "auto"
    cluster: Path | None = None
    timeout_s: float = 3600.0
    exercises: Sequence[str] = ()
    only: Sequence[str] = ()
    seed: int | None = None
    unsafe: bool = False
    dry_run: bool = False
    program: tuple[str, ...] = PYTEST_GRADER


@dataclass
class _Submission:
    """A submission on its way: where its files are, and the key of each exercise."""

    folder: Path
    keys: Mapping[str, Key] = field(default_factory=dict)


def grade_class(options: Options, console: Console) -> int:
    """Grade what is not graded yet and write the book: 0 when all is graded, else 1. Raises GraderError."""
    loaded = load_rubric(options.rubric)
    exercises = list(dict.fromkeys(item.exercise for item in items_of(loaded.rubric, options.exercises)))
    on_cluster = load_cluster_file(options.cluster) if options.cluster else None
    if not on_cluster:
        check_installed(options.root)
    gpus, device = ([], on_cluster.device) if on_cluster else find_gpus(options.gpus)
    # A cluster's nodes have sandboxes of their own, and look for them.
    isolated = () if on_cluster else isolation.child_options(unsafe=options.unsafe, gpu=bool(gpus))
    if options.out.resolve().is_relative_to(options.submissions.resolve()):
        raise GraderError(f"--out {options.out}: lies in the submissions and would count as one; choose another folder")
    people = roster.load_roster(options.roster) if options.roster else None
    participants = leaderboard.load_participants(options.leaderboard) if options.leaderboard else {}
    with _alone(options.out), tempfile.TemporaryDirectory(prefix=".work-", dir=options.out) as scratch:
        ledger = open_ledger(options.out, options.ledger)
        hidden = options.seed if options.seed is not None else ledger.hidden_seed()
        seed = loaded.rubric.seed if hidden is None else hidden
        work = Path(scratch).resolve()
        grader = Grader(options.root, _copied(loaded, work), seed, options.timeout_s, isolated, options.program,
                        peer_times=work / "peer-times.json")  # fmt: skip
        slots: Sequence[Slot]
        place: AbstractContextManager[None] = contextlib.nullcontext()
        if on_cluster:
            cluster = _cluster(options, on_cluster, grader)
            slots, place = cluster.slots, cluster.running()
        else:
            slots = gpu_slots(grader, gpus, options.jobs) if gpus else cpu_slots(grader, options.jobs)
        (work / "intake").mkdir()
        taken = take_in(options.submissions, work / "intake", kind=options.kind, attempt=options.attempt,
                        due=options.due)  # fmt: skip
        staged = work / "submissions" if options.dry_run else options.out / "submissions"
        klass, found = _stage(taken, loaded, exercises, Keys(loaded.rubric, seed, device, options.root), staged, people)
        say.taken(console, taken, klass)
        if options.only and not any(_selected(name, options) for name in taken.submissions):
            raise GraderError(f"--only {' '.join(options.only)}: no submission has such an id; gradebook.csv has them")
        before = load_class(options.out)
        if not options.dry_run:
            klass.write(options.out)
            ledger.add_run(hidden, loaded.sha256, device)
        jobs = _jobs(found, ledger, options)
        say.plan(console, jobs, {name: one.keys for name, one in found.items()}, ledger, slots)
        left = _grade(jobs, slots, place, found, ledger, console, options)
        if options.dry_run:
            say.moves(console, book.read_book(before, ledger) if before else [], book.read_book(klass, ledger))
            return 0
        rows = write_book(options.out, klass, ledger, participants)
        gradebook.show(console, klass, rows)
        say.idle(console, klass, ledger)
        compared = _compare(options, loaded, klass, found)
        facts = {"seed": seed, "hidden": hidden is not None, "rubric_sha256": loaded.sha256, "device": device}
        replace_text(options.out / "run.json", _json({**facts, "compared": compared}))
        told = " (hidden until now)" if hidden is not None else ""
        console.print(f"seed {seed}{told}: `pytest grader --seed {seed}` draws the same cases", soft_wrap=True)
        console.print(f"files: {options.out}", markup=False, soft_wrap=True)
        if left:
            console.print(f"no slot is left: {len(left)} submissions are not graded; run the same command again")
        wanting = [row for row in rows if row.status in ("grader fault", "not graded yet")
                   and _selected(row.entry.submission, options)]  # fmt: skip
        return 1 if left or wanting else 0


def _copied(loaded: LoadedRubric, folder: Path) -> Path:
    """A copy of the rubric: what staff change while a class is graded counts in the next run."""
    data = loaded.path.read_bytes()
    if hashlib.sha256(data).hexdigest() != loaded.sha256:
        raise GraderError(f"{loaded.path}: changed while it was read; run the same command again")
    (folder / loaded.path.name).write_bytes(data)
    return folder / loaded.path.name


def _cluster(options: Options, file: Slurm | ParslFile, grader: Grader) -> Cluster:
    assert options.cluster is not None
    if options.gpus != "auto":
        raise GraderError(f"--gpus {options.gpus}: is for this machine; {options.cluster} says what jobs get")
    require_parsl(options.cluster)
    from .cluster import Cluster

    log = options.out / "cluster.log"
    return Cluster(options.cluster, file, grader, log, unsafe=options.unsafe, jobs=options.jobs)


def write_book(out: Path, klass: Class, ledger: Ledger, participants: Mapping[str, str]) -> list[book.Row]:
    """Write everything that comes from the ledger, as it is now; gives the rows."""
    with _locked(out / ".book.lock", fcntl.LOCK_EX):  # or a decision made meanwhile would be missing in the files
        rows = book.read_book(klass, ledger)
        _write_rows(out, klass, rows, participants)
    return rows


def _write_rows(out: Path, klass: Class, rows: Sequence[book.Row], participants: Mapping[str, str]) -> None:
    gradebook.write_submissions(out, rows, klass.rubric)
    gradebook.write_gradebook(out, klass, rows)
    gradebook.write_flags(out, gradebook.flags(klass, rows))
    facts = statistics.of_class([row for row in rows if row.entry.submission])
    replace_text(out / "statistics.json", _json(facts))
    replace_text(out / "statistics.txt", statistics.as_text(facts))
    if participants:
        lines = leaderboard.ranking(rows, participants)
        replace_text(out / "leaderboard.csv", gradebook.table(["benchmark", "rank", "pseudonym", "speedup"], lines))
    else:  # an old one may have grades that are held back now
        (out / "leaderboard.csv").unlink(missing_ok=True)


def open_ledger(out: Path, url: str | None) -> Ledger:
    """The ledger of an output folder. Raises GraderError, also where the class was graded with another one."""
    if url:
        return Ledger(url)
    file = out / "ledger.sqlite"
    if (out / "class.json").exists() and not file.exists():
        raise GraderError(f"{out}: has a class but no ledger.sqlite; give the --ledger that it was graded with, or "
                          "remove class.json to grade it anew")  # fmt: skip
    return Ledger.in_file(file)


@contextlib.contextmanager
def _locked(path: Path, how: int) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, how)
        yield


@contextlib.contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Keep a second coordinator off the output folder."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with _locked(out / ".lock", fcntl.LOCK_EX | fcntl.LOCK_NB):
            for left in out.glob(".work-*"):  # of a run that was killed
                shutil.rmtree(left, ignore_errors=True)
            yield
    except BlockingIOError:
        raise GraderError(f"--out {out}: another grader batch is at work there; wait for it, or end it") from None
    except OSError as error:
        raise GraderError(f"{error.filename or out}: {error.strerror or error}") from None


def _stage(
    taken: TakenIn,
    loaded: LoadedRubric,
    exercises: Sequence[str],
    keys: Keys,
    into: Path,
    people: Sequence[Person] | None,
) -> tuple[Class, dict[str, _Submission]]:
    """Copy the exercise files of every submission, and say what each one's grade depends on."""
    files = {name: loaded.rubric.file_of(name) for name in loaded.rubric.exercises}
    found: dict[str, _Submission] = {}
    entries: dict[str, Entry] = {}
    for name, handed in taken.submissions.items():
        entry = Entry(submission=name, people=tuple(Who(**vars(one)) for one in handed.people), attempt=handed.attempt,
                      submitted=handed.submitted, late=handed.late, notes=handed.notes)  # fmt: skip
        try:
            sources = staging.collect(handed, files)
        except HandinError as error:
            entries[name] = entry.changed(problem=str(error))
            shutil.rmtree(into / name, ignore_errors=True)
            continue
        staging.write(sources, into / name)
        of_exercises = {exercise: keys.of(exercise, sources) for exercise in exercises}
        found[name] = _Submission(into / name, of_exercises)
        notes = entry.notes if sources else (*entry.notes, "has none of the exercise files")
        entries[name] = entry.changed(
            notes=notes, keys={exercise: key.sha256 for exercise, key in of_exercises.items()}
        )
    klass = Class(title=loaded.rubric.title, rubric=loaded.rubric, platform=taken.kind,
                  exercises=tuple(exercises), refused=taken.refused,
                  entries=tuple(_joined(entries, people)))  # fmt: skip
    return klass, found


def _joined(entries: Mapping[str, Entry], people: Sequence[Person] | None) -> Iterator[Entry]:
    """With a roster: everybody of it in its order, a group's submission once, then what matches nobody."""
    if people is None:
        yield from entries.values()
        return
    joined = roster.join(people, {name: [Person(**who.model_dump()) for who in entry.people]
                                  for name, entry in entries.items()})  # fmt: skip
    members: dict[str, list[Who]] = {}
    for person, submission in joined.students:
        if submission is not None:
            members.setdefault(submission, []).append(Who(**vars(person)))
    strangers: dict[str, list[tuple[Who, str]]] = {}
    for person, submission, why in joined.strangers:
        strangers.setdefault(submission, []).append((Who(**vars(person)), why))
    given = set()
    for person, submission in joined.students:
        if submission is None:
            yield Entry(submission="", people=(Who(**vars(person)),))
        elif submission not in given:
            given.add(submission)
            yield _with_strangers(entries[submission], members[submission], strangers.get(submission, []))
    for name, entry in entries.items():
        if name not in given:
            yield _with_strangers(entry, [], strangers.get(name, []))


def _with_strangers(entry: Entry, members: Sequence[Who], strangers: Sequence[tuple[Who, str]]) -> Entry:
    people = (*members, *(who for who, _ in strangers))
    return entry.changed(people=people, notes=(*entry.notes, *(f"{who} {why}" for who, why in strangers)))


def _selected(submission: str, options: Options) -> bool:
    return not options.only or any(fnmatch.fnmatchcase(submission, pattern) for pattern in options.only)


def _jobs(found: Mapping[str, _Submission], ledger: Ledger, options: Options) -> list[Job]:
    """What the ledger has no grade for."""
    known = ledger.keys()
    jobs = []
    for name, submission in found.items():
        if not _selected(name, options):
            continue
        missing = tuple(
            exercise for exercise, key in submission.keys.items() if (name, exercise, key.sha256) not in known
        )
        if missing:
            jobs.append(Job(name, submission.folder.resolve(), missing))
    return jobs


def _grade(
    jobs: Sequence[Job], slots: Sequence[Slot], place: AbstractContextManager[None], found: Mapping[str, _Submission],
    ledger: Ledger, console: Console, options: Options,
) -> list[Job]:  # fmt: skip
    if not jobs:
        return []
    with place, Shown(console, len(jobs), "grading") as shown:

        def tell(event: Event) -> None:
            if event.kind == "ended" and event.job is not None and event.outcome is not None:
                result = event.outcome.result
                if result is None:
                    ledger.add_fault(event.job.submission, event.job.exercises, event.slot, event.outcome.fault)
                else:
                    isolation.accept(result, unsafe=options.unsafe)
                    keys = found[event.job.submission].keys
                    _keep_pictures(options.out, event.job, result, keys, event.outcome.pictures)
                    ledger.record(_grades(event.job, result, keys, event.slot, options.rubric.resolve()))
            shown.tell(event)

        return Schedule(jobs, slots).run(tell)


def _keep_pictures(out: Path, job: Job, result: Result, keys: Mapping[str, Key], pictures: Mapping[str, str]) -> None:
    """Also in a dry run: a later run does not grade again what that one has."""
    for name in job.exercises:
        named = {Path(picture).name for item in result.exercises[name].items for picture in item.pictures}
        mine = {picture: text for picture, text in pictures.items() if picture in named}
        gradebook.write_pictures(out, job.submission, keys[name].sha256, mine)


def _grades(job: Job, result: Result, keys: Mapping[str, Key], slot: str, rubric: Path) -> Iterator[Grade]:
    """A grade per exercise, each with a result of its own."""
    again = ["pytest", "grader", "--submission", str(job.folder), "--rubric", str(rubric), "--reproduce"]
    for name in job.exercises:
        # What the child says of its own files and of its copy of the rubric is gone with them.
        key = keys[name].sha256
        items = [
            item.model_copy(
                update={
                    "script": "",
                    "pictures": gradebook.pictures_of(job.submission, key, item.pictures),
                    "reproduce": shlex.join([*again, item.case]) if item.case else "",
                }
            )
            for item in result.exercises[name].items
        ]
        totals = TotalsResult(
            earned=sum(item.points for item in items),
            gradable=sum(item.max_points for item in items if item.gradable),
            maximum=sum(item.max_points for item in items),
        )
        files = {one: digest for one, digest in result.submission.files.items() if one == name}
        part = result.model_copy(
            update={"submission": result.submission.model_copy(update={"files": files}),
                    "exercises": {name: ExerciseResult(items=items)}, "totals": totals}
        )  # fmt: skip
        yield Grade(job.submission, name, key, dict(keys[name].parts), totals.earned, totals.gradable,
                    totals.maximum, part.model_dump_json(by_alias=True), slot)  # fmt: skip


def _compare(options: Options, loaded: LoadedRubric, klass: Class, found: Mapping[str, _Submission]) -> str:
    """Write `similarity.csv` where it is not of these files; gives what it is of."""
    files = {name: loaded.rubric.file_of(name) for name in klass.exercises}
    of_each = [[name, one.keys[klass.exercises[0]].parts["files"]] for name, one in found.items()]
    digest = hashlib.sha256(_json([files, of_each]).encode()).hexdigest()
    target = options.out / "similarity.csv"
    if target.exists() and _last_run(options.out).get("compared") == digest:
        return digest
    lines = compare_class(options.out, list(found), files, options.root / "student")
    replace_text(target, gradebook.table(["exercise", "submission", "other", "share"], lines))
    return digest


def _last_run(out: Path) -> dict[str, object]:
    """What the last run left in `run.json`; nothing depends on it but what need not be done again."""
    try:
        facts = json.loads((out / "run.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def author() -> str:
    """Who is at the keyboard, as far as the system knows."""
    return os.environ.get("USER") or os.environ.get("LOGNAME") or str(os.getuid())
