"""For Classroom 50: staff put this file into CLASSROOM/autograders/ASSIGNMENT/ of the configuration repository.

Its runner calls it in the submission's folder. It fetches the handout at its tag, grades the exercise files with that,
and writes result.json there. GRADER_DEVICE=cuda for a runner with a GPU.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

URL = "<< url >>"
TAG = "<< tag >>"
SHA256 = "<< sha256 >>"


def main() -> None:
    """Grade the current folder."""
    submission, device = Path.cwd(), os.environ.get("GRADER_DEVICE", "cpu")
    with tempfile.TemporaryDirectory() as scratch:
        pristine, venv, out = (Path(scratch, name) for name in ("pristine", "venv", "out"))
        run("git", "clone", "--quiet", "--depth", "1", "--branch", TAG, URL, pristine)
        if hashlib.sha256((pristine / "MANIFEST.sha256").read_bytes()).hexdigest() != SHA256:
            sys.exit(f"{URL} {TAG} is not the handout that this file was made with")
        run("sha256sum", "--check", "--quiet", "MANIFEST.sha256", cwd=pristine)
        python = os.environ.get("GRADER_VENV", venv)
        if python == venv:
            run(pristine / "ci/install", venv, device)
        run(pristine / "ci/grade", python, device, submission, out)
        os.environ["PYTHONPATH"] = str(pristine)
        cli = (Path(python, "bin/python"), "-P", "-m", "grader.cli")
        run(*cli, "verify", submission)
        run(*cli, "report", out / "result.json", "--to", "classroom50", "--out", submission / "result.json")


def run(*command: object, cwd: Path | None = None) -> None:
    """Run a command, and end where it fails."""
    subprocess.run([str(part) for part in command], cwd=cwd, check=True)


if __name__ == "__main__":
    main()
