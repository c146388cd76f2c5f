"""What each platform exports, taken in: a golden folder a kind, as INTERFACES of the platforms describe them."""

from __future__ import annotations

import os
import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from grader.batch import roster, staging
from grader.batch.intake import KINDS, take_in
from grader.batch.intake.handed import Handed, Person, slug
from grader.errors import GraderError, HandinError

GOLDEN = Path(__file__).parent / "intake"
FILES = {"gelu": "gelu.py", "softmax": "softmax.py"}

# Kind: the export's folder, and per submission: people, attempt, late, files or the reason why there are none.
EXPECTED: dict[str, tuple[str, dict[str, tuple[list[Person], bool | None, object]]]] = {
    "gradescope": (
        "assignment_77_export",
        {
            "submission_101": ([Person("Ada Lovelace", "1001", "ada@example.edu")], False, {"gelu.py": b"# ada 2\n"}),
            "submission_102": (
                [Person("Alan Turing", "1002", "alan@example.edu"),
                 Person("Grace Hopper", "1003", "grace@example.edu")],
                True,
                {"gelu.py": b"# pair\n", "helper.py": b"# beside\n", "softmax.py": b"# pair\n"},
            ),
            "submission_103": ([Person("Linus T", "", "linus@example.edu")], None,
                               "the export has no folder of this name"),
            "submission_104": ([], False, {"gelu.py": b"# nobody\n"}),
        },
    ),
    "canvas": (
        "submissions",
        {
            "lovelaceada_11": ([Person("lovelaceada", "11")], False,
                               {"gelu.py": b"# again\n", "softmax.py": b"# ada\n"}),
            "turingalan_12": ([Person("turingalan", "12")], True, {"gelu.py": b"# alan\n"}),
            "hoppergrace_13": ([Person("hoppergrace", "13")], False, {}),
        },
    ),
    "moodle": (
        "CS336-Kernels-4711",
        {
            "Ada-Lovelace_501": ([Person("Ada Lovelace", "501")], None, {"gelu.py": b"# ada\n"}),
            "Alan-Turing_502": ([Person("Alan Turing", "502")], None, {"gelu.py": b"# from a zip\n"}),
        },
    ),
    "classroom": (
        "kernels-submissions",
        {
            "kernels-adal": ([Person("ada@example.edu", "ada@example.edu", login="adal")], None,
                             {"gelu.py": b"# ada\n"}),
            "kernels-team-one": (
                [Person("alan", "alan", login="turing"), Person("grace", "grace", login="ghopper")], None,
                {"gelu.py": b"# team\n"},
            ),
            "kernels-ghost": ([Person("ghost", login="ghost")], None, {}),
        },
    ),
    "classroom50": (
        "cs336-kernels_submissions_2026-04-16T10_00_00",
        {
            "cs336-kernels-adal": ([Person("adal", login="adal")], None, {"gelu.py": b"# ada\n"}),
            "cs336-kernels-turing": ([Person("turing", login="turing")], None, {"softmax.py": b"# alan\n"}),
        },
    ),
    "plain": (
        "plain",
        {
            "ada": ([Person("ada", login="ada")], None, {"gelu.py": b"# top\n"}),
            "alan_attempt_2": ([Person("alan", login="alan")], None, {"gelu.py": b"# second\n"}),
            "grace": ([Person("grace", login="grace")], None, {"gelu.py": b"# zipped\n"}),
            "linus": ([Person("linus", login="linus")], None, "there is a/gelu.py as well as b/gelu.py; keep one"),
        },
    ),
}  # fmt: skip


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """The golden folders, with the archives that students handed in made from `*.zip.d` folders."""
    root = tmp_path / "golden"
    shutil.copytree(GOLDEN, root)
    for folder in sorted(root.rglob("*.zip.d"), reverse=True):
        pack(folder, folder.with_suffix(""))
        shutil.rmtree(folder)
    return root


def pack(folder: Path, archive: Path) -> None:
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                file.write(path, path.relative_to(folder))


def collected(handed: Handed) -> object:
    try:
        return staging.collect(handed, FILES)
    except HandinError as error:
        return str(error)


@pytest.mark.parametrize("packed", ["folder", "zip", "zip around the folder", "tar.gz"])
@pytest.mark.parametrize("kind", EXPECTED)
def test_an_export_is_recognised_and_taken_in(golden, tmp_path, kind, packed):
    name, expected = EXPECTED[kind]
    path = golden / kind / name
    if packed == "zip around the folder":
        pack(golden / kind, tmp_path / "export.zip")
        path = tmp_path / "export.zip"
    elif packed == "zip":
        pack(path, tmp_path / f"{name}.zip")
        path = tmp_path / f"{name}.zip"
    elif packed == "tar.gz":
        with tarfile.open(tmp_path / f"{name}.tar.gz", "w:gz") as tar:
            tar.add(path, arcname=name)
        path = tmp_path / f"{name}.tar.gz"
    if kind == "classroom" and packed in ("zip", "tar.gz"):
        shutil.copy(golden / kind / "grades.csv", golden / kind / name)
        pack(golden / kind / name, tmp_path / f"{name}.zip")
        path = tmp_path / f"{name}.zip"
    taken = take_in(path, tmp_path / "scratch", due="2026-04-15T23:59:59-07:00" if kind == "gradescope" else None)
    assert taken.kind == kind
    found = {strip(name): (list(one.people), one.late, collected(one)) for name, one in taken.submissions.items()}
    assert found == expected


def strip(name: str) -> str:
    """An id without the hash of a name that had other characters."""
    stem, _, tail = name.rpartition("-")
    return stem if len(tail) == 6 and all(c in "0123456789abcdef" for c in tail) else name


def test_every_kind_has_a_golden_folder():
    assert set(EXPECTED) == set(KINDS)


def test_of_several_attempts_the_last_is_taken_or_the_one_asked_for(golden, tmp_path):
    path = golden / "plain/plain"
    taken = take_in(path, tmp_path / "scratch")
    assert (taken.passed_over, "alan_attempt_1" in taken.submissions) == (1, False)
    first = take_in(path, tmp_path / "scratch", attempt=1)
    assert collected(first.submissions["alan_attempt_1"]) == {"gelu.py": b"# first\n"}
    second = take_in(path, tmp_path / "scratch", attempt=2).submissions
    assert collected(second["alan_attempt_2"]) == {"gelu.py": b"# second\n"}
    assert collected(second["ada"]) == "there is no attempt 2, only 1"


def test_gradescope_attempts_of_one_student_are_ordered_by_time(golden, tmp_path):
    taken = take_in(golden / "gradescope/assignment_77_export", tmp_path / "scratch")
    assert taken.passed_over == 1
    assert "submission_100" not in taken.submissions


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"kind": "blackboard"}, "--kind blackboard: there is no such kind; known: gradescope, moodle"),
        ({"due": "tomorrow"}, "--due tomorrow: is not a date and time"),
        ({"path": "nowhere"}, "nowhere: does not exist"),
        ({"path": "rubric.yaml"}, "rubric.yaml: is neither a folder nor a zip or tar archive"),
        ({"path": "student"}, "no export of gradescope"),
    ],
)
def test_what_can_not_be_taken_in_says_why(tmp_path, arguments, says):
    path = Path(__file__).parent.parent / arguments.pop("path", "examples")
    with pytest.raises(GraderError) as error:
        take_in(path, tmp_path / "scratch", **arguments)
    assert says in str(error.value)


def test_a_broken_metadata_file_names_itself(tmp_path):
    (tmp_path / "export").mkdir()
    (tmp_path / "export/submission_metadata.yml").write_text("a: [")
    with pytest.raises(GraderError, match=r"submission_metadata\.yml: can't be read"):
        take_in(tmp_path / "export", tmp_path / "scratch")


def test_a_link_in_a_folder_is_refused_and_never_followed(tmp_path):
    (tmp_path / "class/eve/student").mkdir(parents=True)
    (tmp_path / "secret.py").write_text("# secret\n")
    (tmp_path / "class/eve/student/gelu.py").symlink_to(tmp_path / "secret.py")
    (tmp_path / "class/mal").mkdir()
    (tmp_path / "class/mal/student").symlink_to(tmp_path / "class/bob")
    (tmp_path / "class/bob").mkdir()
    (tmp_path / "class/bob/gelu.py").write_text("# bob\n")
    (tmp_path / "class/zed").symlink_to(tmp_path / "class/bob")
    found = {name: collected(one) for name, one in take_in(tmp_path / "class", tmp_path / "s").submissions.items()}
    assert found == {
        "bob": {"gelu.py": b"# bob\n"},
        "eve": "gelu.py is a link or no regular file; hand in the file itself",
        "mal": {},
    }


def test_only_the_exercise_files_and_python_beside_them_are_copied(tmp_path):
    work = tmp_path / "class/ada"
    for name in ("student/gelu.py", "student/helper.py", "student/conftest.py", "student/data.bin", "conftest.py",
                 "other/softmax.txt", ".git/gelu.py", "__pycache__/gelu.py"):  # fmt: skip
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("#\n")
    handed = take_in(tmp_path / "class", tmp_path / "s").submissions["ada"]
    assert sorted(staging.collect(handed, FILES)) == ["gelu.py", "helper.py"]
    staging.write({"gelu.py": b"1", "sub/softmax.py": b"2"}, tmp_path / "out/ada")
    staging.write({"gelu.py": b"3"}, tmp_path / "out/ada")
    assert [str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*")] == ["ada", "ada/gelu.py"]


def test_a_folder_that_can_not_be_read_is_not_taken_for_an_empty_one(tmp_path, monkeypatch):
    (tmp_path / "class/ada").mkdir(parents=True)
    handed = take_in(tmp_path / "class", tmp_path / "s").submissions["ada"]

    scandir = os.scandir

    def refuses(path: Any) -> Any:
        if str(path).endswith("class/ada"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr("os.scandir", refuses)  # tests may run as root, who may read everything
    with pytest.raises(HandinError, match="can't be read: Permission denied"):
        staging.collect(handed, FILES)


def test_a_bad_archive_is_one_refusal_and_the_others_go_on(tmp_path):
    (tmp_path / "class").mkdir()
    with zipfile.ZipFile(tmp_path / "class/eve.zip", "w") as archive:
        archive.writestr("../../gelu.py", "#\n")
    with zipfile.ZipFile(tmp_path / "class/ada.zip", "w") as archive:
        archive.writestr("kernels/gelu.py", "# ada\n")
    found = {name: collected(one) for name, one in take_in(tmp_path / "class", tmp_path / "s").submissions.items()}
    assert found == {"ada": {"gelu.py": b"# ada\n"}, "eve": "'../../gelu.py' leads out of the archive"}


def test_a_link_inside_an_export_refuses_its_own_submission_only(tmp_path):
    with tarfile.open(tmp_path / "class.tar", "w") as tar:
        kinds = {"ada/gelu.py": tarfile.REGTYPE, "eve/x/gelu.py": tarfile.SYMTYPE, "eve/a": tarfile.REGTYPE}
        for name, kind in kinds.items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            tar.addfile(info)
    found = {name: collected(one) for name, one in take_in(tmp_path / "class.tar", tmp_path / "s").submissions.items()}
    assert found == {"ada": {"gelu.py": b""}, "eve": "'eve/x/gelu.py' is a link; only files and folders are unpacked"}


def test_what_was_not_unpacked_and_belongs_to_nobody_is_told(tmp_path):
    with tarfile.open(tmp_path / "class.tar", "w") as tar:
        for name, kind in {"ada_11_1_gelu.py": tarfile.REGTYPE, "ada_11_2_softmax.py": tarfile.SYMTYPE,
                           "eve_12_3_gelu.py": tarfile.SYMTYPE}.items():  # fmt: skip
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            tar.addfile(info)
    taken = take_in(tmp_path / "class.tar", tmp_path / "s")
    assert taken.kind == "canvas"
    assert "'ada_11_2_softmax.py' is a link" in taken.submissions["ada_11"].problem
    assert taken.refused == ("'eve_12_3_gelu.py' is a link; only files and folders are unpacked",)


def test_names_become_safe_ids_and_stay_apart():
    assert slug("ada") == "ada"
    assert slug("../../etc") not in ("", "..", "../../etc")
    assert slug("Ada Lovelace") != slug("Ada/Lovelace")
    assert "/" not in slug("a/b\0c\n")


def test_the_roster_finds_everyone_once_and_says_who_is_missing(tmp_path):
    path = tmp_path / "roster.csv"
    path.write_text(
        "Student,ID,SIS Login ID,Email\n"
        '"Lovelace, Ada",11,adal,ada@example.edu\nAlan Turing,12,turing,\nJosé Núñez,13,,\nSam Lee,14,,\nSam Lee,15,,\n'
    )
    people = roster.load_roster(path)
    joined = roster.join(
        people,
        {
            "one": [Person("lovelaceada")],
            "two": [Person(login="TURING"), Person("Nunez Jose")],
            "three": [Person("Sam Lee")],
            "four": [Person("Nobody", "99")],
        },
    )
    assert [submission for _, submission in joined.students] == ["one", "two", "two", None, None]
    assert [(submission, why) for _, submission, why in joined.strangers] == [
        ("three", "fits several people of the roster"),
        ("four", "is not on the roster"),
    ]  # two are called Sam Lee


@pytest.mark.parametrize(("text", "says"), [("", "has nobody in it"), ("a,b\n1,2\n", "must have headings out of"),
                                            (None, "can't be read")])  # fmt: skip
def test_a_useless_roster_says_what_it_needs(tmp_path, text, says):
    path = tmp_path / "roster.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(GraderError, match=says):
        roster.load_roster(path)
