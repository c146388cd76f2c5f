"""Every command in the README and the documents exists, with its options; blocks are parsed as they stand."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest
import typer

from grader.cli import app
from grader.verdict import Status

ROOT = Path(__file__).parent.parent
TEMPLATE = ROOT / "grader/release/templates/README.md"  # of a handout
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    TEMPLATE,
    *(ROOT / "docs").glob("*.md"),
]
PROGRAMS = ("grader", "pytest", "make", "pip", "python", "python3")
OTHERS = (".", "wsl", "apt-get")  # other programs that blocks or spans may begin with
NO_COMMANDS = ("grader fault",)  # a status of the gradebook
PLACEHOLDER = re.compile(r"[…|\[\]{}]|\\")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def blocks_of(text: str) -> tuple[list[list[str]], str]:
    """The blocks of commands, without a language, as lines that are typed; and what is outside of all blocks."""
    blocks, outside = [], []
    fence: str | None = None
    for line in text.splitlines():
        if line.startswith("```"):
            if fence is None:
                blocks.append([])
            elif fence:  # Python, YAML, …
                blocks.pop()
            fence = line[3:] if fence is None else None
        elif fence is None:
            outside.append(line)
        elif line.strip():
            blocks[-1].append(line)
    session = [[line[2:] for line in block if line.startswith("$ ")] for block in blocks]
    typed = [shown or block for shown, block in zip(session, blocks, strict=True)]
    return [block for block in typed if block[0].split()[0] in (*PROGRAMS, *OTHERS)], "\n".join(outside)


def commands(text: str) -> list[tuple[str, bool]]:
    """Commands, and whether they stand in a block: there they have no placeholders."""
    blocks, outside = blocks_of(text)
    found = [(line, True) for block in blocks for line in block]
    found += [(span.replace("\\|", "|"), False) for span in re.findall(r"`([^`\n]+)`", outside)]
    cleaned = [(re.sub(r"^[A-Z_]+=\S+ ", "", line.partition("  #")[0]).strip(), block) for line, block in found]
    return [(line, block) for line, block in cleaned
            if line.split(" ")[0] in PROGRAMS and " " in line and line not in NO_COMMANDS]  # fmt: skip


ALL = sorted({(path.relative_to(ROOT).as_posix(), *each) for path in DOCUMENTS for each in commands(path.read_text())})


@cache
def options_of_pytest() -> set[str]:
    done = subprocess.run([sys.executable, "-P", "-m", "pytest", "grader", "--help"], cwd=ROOT, capture_output=True,
                          text=True, check=True)  # fmt: skip
    return set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", done.stdout))


def check(command: str, *, whole: bool) -> None:
    """Fails where there is no such command, or option, or, with `whole`, where it can't be parsed."""
    program, *arguments = shlex.split(command) if whole else command.replace("'", "").replace('"', "").split()
    given = [word.partition("=")[0] for word in arguments if word.startswith("-") and word != "-"]
    if program in ("python", "python3"):
        if arguments[0].endswith(".py"):
            assert (ROOT / arguments[0]).is_file()
            return
        assert arguments[:1] == ["-m"]
        program, arguments = arguments[1], arguments[2:]
        if program in ("venv", "build", "pdb"):
            return
        given = [word.partition("=")[0] for word in arguments if word.startswith("-")]
    if program == "pytest":
        assert set(given) <= options_of_pytest()
        for path in (word for word in arguments if whole and not word.startswith("-") and word in ("grader", "tests")):
            assert (ROOT / path).is_dir()
    elif program == "make":
        for target in arguments:
            assert re.search(rf"^{re.escape(target)}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target
            done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
    elif program == "pip":
        assert arguments[0] == "install"
        for extra in re.findall(r"\[([\w,]+)\]", command):
            assert set(extra.split(",")) <= set(PROJECT["optional-dependencies"])
    elif program == "grader":
        group = typer.main.get_command(app)
        if arguments[0] not in group.commands:
            raise AssertionError(f"there is no command {arguments[0]!r}")
        subcommand = group.commands[arguments[0]]
        known = {option for parameter in subcommand.params for option in parameter.opts} | {"--help"}
        assert set(given) <= known, set(given) - known
        if whole:
            subcommand.make_context(arguments[0], arguments[1:])


@pytest.mark.parametrize(("file", "command", "block"), ALL, ids=[f"{file}: {command}" for file, command, _ in ALL])
def test_a_command_in_the_documents_exists(file, command, block):
    check(command, whole=block and not PLACEHOLDER.search(command))


def test_students_are_told_of_every_status_once():
    rows = re.findall(r"^\| (`.*?) \| .+? \| .+? \|$", (ROOT / "docs/students.md").read_text(), re.MULTILINE)
    assert sorted(status for row in rows for status in re.findall(r"`(\w+)`", row)) == sorted(Status)


def test_staff_are_told_of_statuses_that_there_are():
    table = (ROOT / "docs/staff.md").read_text().partition("## What a status asks of staff")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    named = {status for row in rows for status in re.findall(r"`(\w+)`", row)}
    assert named <= set(Status)
    assert len(named) == 8


def test_the_readme_lists_every_document():
    readme = (ROOT / "README.md").read_text()
    assert [path.name for path in (ROOT / "docs").glob("*.md") if f"docs/{path.name}" not in readme] == []


def test_the_commands_are_found():
    assert len(ALL) > 60
    assert {command.split()[0] for _, command, _ in ALL} >= {"grader", "pytest", "make", "pip"}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_blocks_hold_nothing_else_that_is_run(path):
    """A program that this test doesn't know would go unchecked."""
    for line in (line for block in blocks_of(path.read_text())[0] for line in block):
        assert line.split()[0] in (*PROGRAMS, *OTHERS), line


@pytest.mark.parametrize(
    "command",
    ["grader grade x", "grader batch x --outt y", "pytest grader --submision x", "make nothing",
     "pip install -e '.[gpus]'", "grader report x --to excel --out y", "grader release --out"],
)  # fmt: skip
def test_a_command_that_does_not_exist_is_found(command):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the class is not click's own
        check(command, whole=True)
    assert type(caught.value).__name__ in ("AssertionError", "BadParameter", "BadOptionUsage")
