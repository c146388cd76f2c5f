"""Joins submissions with the class list: who handed nothing in, and what belongs to nobody. Trusted side, pure."""

from __future__ import annotations

import csv
import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import GraderError
from .intake.handed import Person

# Headings of rosters that platforms export, in lower case, by what they mean here.
_HEADINGS = {
    "name": ("name", "full name", "student", "student name", "roster_identifier"),
    "first": ("first name", "firstname", "given name"),
    "last": ("last name", "lastname", "surname", "family name"),
    "id": ("id", "sid", "student id", "id number", "sis user id", "identifier", "roster_identifier"),
    "email": ("email", "email address", "e-mail"),
    "login": ("login", "username", "user name", "sis login id", "github_username", "github username"),
}


@dataclass(frozen=True)
class Joined:
    """Who handed in what: submission ids per person of the roster, and who matches nobody there, with the reason."""

    students: Sequence[tuple[Person, str | None]]
    strangers: Sequence[tuple[Person, str, str]]


def load_roster(path: Path) -> list[Person]:
    """The people in a CSV, by its headings. Raises GraderError."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise GraderError(f"--roster {path}: can't be read: {error.strerror or error}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise GraderError(f"--roster {path}: is not a CSV file in UTF-8: {error}") from None
    people = []
    for row in rows:
        by_heading = {(key or "").strip().lower(): (value or "").strip() for key, value in row.items()
                      if not isinstance(value, list)}  # fmt: skip
        facts = {
            fact: next((by_heading[heading] for heading in headings if by_heading.get(heading)), "")
            for fact, headings in _HEADINGS.items()
        }
        name = facts["name"] or f"{facts['first']} {facts['last']}".strip()
        # Moodle's worksheet calls somebody `Participant 11`, its export of submissions `11`.
        person = Person(name, re.sub(r"^Participant (?=\d+$)", "", facts["id"]), facts["email"], facts["login"])
        if (person.name or person.keys) and person not in people:
            people.append(person)
    if not people:
        known = ", ".join(sorted({heading for headings in _HEADINGS.values() for heading in headings}))
        raise GraderError(f"--roster {path}: has nobody in it; its first line must have headings out of: {known}")
    return people


def join(roster: Sequence[Person], submissions: Mapping[str, Sequence[Person]]) -> Joined:
    """Match by what identifies for certain (id, email, login), then by a name that is the only one of its kind."""
    by_key, by_name = defaultdict[str, set[int]](set), defaultdict[str, set[int]](set)
    for index, person in enumerate(roster):
        for key in person.keys:
            by_key[key].add(index)
        for name in _spellings(person.name):
            by_name[name].add(index)
    handed: dict[int, str] = {}
    strangers = []
    for submission, people in submissions.items():
        for person in people:
            by_id = [by_key[key] for key in sorted(person.keys) if len(by_key[key]) == 1]
            by_spelling = set[int]().union(*(by_name[name] for name in _spellings(person.name)))
            matches = by_id[0] if by_id else by_spelling
            match = next(iter(matches)) if len(matches) == 1 else None
            if match is None:
                why = "fits several people of the roster" if matches else "is not on the roster"
                strangers.append((person, submission, why))
            elif match in handed:
                strangers.append((person, submission, f"has the submission {handed[match]} too"))
            else:
                handed[match] = submission
    return Joined([(person, handed.get(index)) for index, person in enumerate(roster)], strangers)


def _spellings(name: str) -> set[str]:
    """A name without case, accents and punctuation, whichever part comes first: Canvas writes `lovelaceada`."""
    text = unicodedata.normalize("NFKD", name).casefold()
    words = ["".join(c for c in word if c.isalnum()) for word in re.split(r"[\s,_-]+", text)]
    words = [word for word in words if word]
    return {"".join(words[turn:] + words[:turn]) for turn in range(len(words))}
