"""The source rules: what they find, what they leave alone, and what a rubric makes of it."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from grader.errors import RubricError
from grader.policy import MAX_SOURCE_BYTES, SourceReport, check_sources
from grader.rubric import SourceRules, load_rubric
from grader.source_rules import RULES
from grader.submission import Sources
from grader.verdict import Status
from tests.corpus import ROOT, entries


def check(source: str | bytes, rules: SourceRules | None = None, **beside: str) -> SourceReport:
    data = source if isinstance(source, bytes) else textwrap.dedent(source).encode()
    files = {"softmax.py": data, **{f"{name}.py": textwrap.dedent(text).encode() for name, text in beside.items()}}
    return check_sources(Sources("softmax.py", files), rules or SourceRules())


def rules_of(report: SourceReport) -> set[str]:
    return {finding.rule for finding in (*report.forbidden, *report.suspicious)}


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("import os", "import"),
        ("import os.path as p", "import"),
        ("from os import environ", "import"),
        ("def f():\n    import subprocess", "import"),
        ("import torch, ctypes", "import"),
        ("from . import x", "import"),
        ("from .. import grader", "import"),
        ("try:\n    import socket\nexcept ImportError:\n    socket = None", "import"),
        ("import reference", "import"),
        ("import dataclasses\ndataclasses.sys.modules", "import"),
        ("from warnings import sys as s", "import"),
        ("import torch\ngetattr(torch, 'os')", "import"),
        ("import typing as t\nt.sys", "import"),
        ("import importlib", "import"),
        ("if __name__ == '__main__':\n    pass\nelse:\n    import os", "import"),
        ("if __name__ != '__main__':\n    import os", "import"),
        ("import torch.multiprocessing", "process"),
        ("from torch import multiprocessing as mp", "process"),
        ("from torch.utils.cpp_extension import load_inline", "process"),
        ("import numpy as np\nnp.ctypeslib.load_library('c', '.')", "process"),
        ("def f(a):\n    return a.ctypes.data", "process"),
        ("breakpoint()", "process"),
        ("open('x')", "file"),
        ("f = open", "file"),
        ("def f(open_):\n    return open(open_)", "file"),
        ("def f():\n    open = 1\nopen('x')", "file"),
        ("import torch\ntorch.save(1, 'x')", "file"),
        ("from torch import load as l", "file"),
        ("import numpy\nnumpy.memmap('x')", "file"),
        ("def f(x):\n    x.tofile('x')", "file"),
        ("eval('1')", "dynamic-code"),
        ("exec(compile('1', '', 'exec'))", "dynamic-code"),
        ("x = [eval][0]('1')\ndef eval(x): pass", "dynamic-code"),
        ("if 0:\n    def eval(x): pass\neval('1')", "dynamic-code"),
        ("__import__('o' + 's')", "dynamic-code"),
        ("import builtins", "import"),
        ("__builtins__['open']", "introspection"),
        ("globals()['x'] = 1", "introspection"),
        ("().__class__.__base__.__subclasses__()", "introspection"),
        ("def f(): pass\nf.__globals__", "introspection"),
        ("getattr(1, '__globals__')", "introspection"),
        ("import operator\noperator.attrgetter('a.b')", "introspection"),
        ("def f(d):\n    return d['__builtins__']", "introspection"),
        ("try:\n    1\nexcept Exception as e:\n    e.__traceback__.tb_frame.f_back.f_locals", "introspection"),
        ("def f(g):\n    return g.gi_frame", "introspection"),
        ("import torch.overrides", "introspection"),
        ("import torch\ntorch._C._x", "private"),
        ("from torch import _dynamo", "private"),
        ("from torch.utils._python_dispatch import TorchDispatchMode", "private"),
        ("import triton as t\nt.language._x()", "private"),
        ("import torch\ntorch.softmax = None", "patching"),
        ("import time\ntime.perf_counter = lambda: 0", "patching"),
        ("from torch import Tensor\nTensor.detach = None", "patching"),
        ("import torch\nT = torch.Tensor\nT.__add__ = None", "patching"),
        ("import torch as q\nsetattr(q, 'x', 1)", "patching"),
        ("import torch\ndel torch.softmax", "patching"),
        ("import torch\nfor torch.softmax in [1]: pass", "patching"),
        ("import torch\nwith f() as torch.x: pass", "patching"),
        ("import torch\ntorch.x, y = 1, 2", "patching"),
        ("import torch\ntorch.x += 1", "patching"),
        ("import torch\ntorch.library.Library('aten', 'IMPL')", "patching"),
        ("x = 1\nx.__class__ = int", "patching"),
        ("__name__ = '__main__'", "patching"),
        ("from math import pi as __name__", "patching"),
        ("def f():\n    global __name__\n    __name__ = '__main__'", "patching"),
        ("class T:\n    def __torch_function__(cls): pass", "tensor-subclass"),
        (
            "def f(k, x):\n    try:\n        k[(1,)](x)\n    except Exception:\n        return x + 1",
            "fallback-in-except",
        ),
        ("def f(x):\n    return x.cpu().numpy()", "host-data"),
        ("import torch\ntorch.from_numpy(1)", "host-data"),
        ("x = " + "-" * 5000 + "1", "unreadable"),
        ("x = 1" + " + 1" * 5000, "unreadable"),
        ("x" + ".y" * 5000, "unreadable"),
        ("#" * (MAX_SOURCE_BYTES + 1), "unreadable"),
        (b"# coding: unicode_escape\n# \\nimport os", "import"),
    ],
)
def test_a_rule_finds(source, rule):
    assert rule in rules_of(check(source))


@pytest.mark.parametrize(
    "source",
    [
        "",
        "import math, functools, typing, dataclasses, warnings, itertools",
        "from __future__ import annotations",
        "from triton.language.extra import libdevice",
        "from triton.runtime import driver\nN = driver.active.utils.get_device_properties(0)",
        "import triton\nDEVICE = triton.runtime.driver.active.get_active_torch_device()",
        "import torch\nx = torch.nn.functional.softmax\ntorch.cuda.synchronize()",
        "import torch\ntorch.backends.cuda.matmul.allow_tf32 = True",
        "import torch\nclass F(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x): ctx.x = x",
        "# import os\n'''open(x); exec(y)'''",
        "x = 7 // 2  # https://example.org//\ny = x // 3",
        "time = 3\ntime += 1",
        "for os in range(3):\n    print(os)",
        "def f(os, sys, open):\n    return open(os, sys)",
        "def open_tile(x): return x\nopen_tile(1)",
        "def compile(x): return x\ncompile(1)",
        "class M:\n    def eval(self): return self\nM().eval()",
        "import re\nre.compile('x')",
        "import torch\nf = torch.compile(abs)",
        "print(type(1).__name__, abs.__doc__, __file__, __name__)",
        "class T:\n    __slots__ = ()\n    def __init__(self):\n        super().__init__()",
        "if __name__ == '__main__':\n    import os, subprocess\n    open('x'); eval('1')",
        "if '__main__' == __name__:\n    import time\n    print(time.time())",
        "getattr(1, 'real')",
        "def f(k, x):\n    try:\n        k[(1,)](x)\n    except RuntimeError as e:\n        raise ValueError from e",
        "def f(x):\n    try:\n        y = x.to('cuda')\n    except RuntimeError:\n        y = x\n    return y",
        "def f(k, x):\n    k[(1,)](x, num_stages=2, num_warps=8)",
        "x = '\\d'",
        "this is not python",
        "x = 1\0",
        b"\xff\xfe",
    ],
)
def test_no_rule_finds(source):
    assert rules_of(check(source)) == set()


@pytest.mark.parametrize(
    "path",
    [*(entry.folder / entry.file for entry in entries() if entry.right),
     *(path for path in ROOT.glob("reference/solutions/*.py") if path.stem != "__init__"),
     *ROOT.glob("student/*.py")],
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)  # fmt: skip
def test_right_kernels_solutions_and_starters_have_no_findings(path: Path):
    sources = Sources(path.name, {other.name: other.read_bytes() for other in path.parent.glob("*.py")})
    assert rules_of(check_sources(sources, load_rubric(ROOT / "rubric.yaml").rubric.source_rules)) == set()


def test_a_finding_names_file_line_rule_and_why_and_the_verdict_what_to_do():
    report = check("import helper\n", helper="\n\nimport os\nimport gc\nimport sys\nimport socket\n")
    verdict = report.verdict()
    assert verdict.status is Status.FORBIDDEN
    assert verdict.message.startswith(
        "helper.py:3: imports os (rule import: only the modules that the rubric lists, and files beside this one, can"
    )
    assert verdict.message.endswith("; and 1 more")
    assert "__main__" in verdict.hint
    assert verdict.evidence["rules"][0] == {"file": "helper.py", "line": 3, "rule": "import", "what": "imports os"}


def test_files_that_are_not_imported_are_not_read():
    assert not check("import a\n", a="import b", b="x = 1", c="import os").forbidden
    assert check("import a\n", a="import b", b="import os").forbidden
    assert not check("if __name__ == '__main__':\n    import c\n", c="import os").forbidden
    assert not check("import a\n", a="import softmax").forbidden


def test_a_file_of_a_librarys_name_does_not_stand_for_the_library():
    assert check("import torch\ntorch.softmax = 1\n", torch="softmax = 0").forbidden


def test_the_rubric_adds_modules_and_says_what_a_rule_does():
    source = "import os\nimport torch\ntorch.x = 1\n"
    assert rules_of(check(source)) == {"import", "patching"}
    assert rules_of(check(source, SourceRules(imports=("torch", "os")))) == {"patching"}
    warned = check(source, SourceRules(rules={"import": "warn", "patching": "ignore"}))
    assert warned.verdict() is None
    assert warned.staff == {"source": [{"file": "softmax.py", "line": 1, "rule": "import", "what": "imports os"}]}
    strict = check("class T:\n    def __torch_function__(cls): pass", SourceRules(rules={"tensor-subclass": "forbid"}))
    assert strict.verdict() is not None
    assert check(source, SourceRules(enabled=False)) == SourceReport()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("source_rules: {rules: {imports: ignore}}", "source_rules.rules.imports"),
        ("source_rules: {rules: {import: maybe}}", "source_rules.rules.import"),
        ("source_rules: {imports: ['os.path']}", "source_rules.imports.0"),
        ("source_rules: {import: [os]}", "source_rules.import"),
    ],
)
def test_a_mistake_in_the_rules_is_named_with_its_line(tmp_path, text, says):
    path = tmp_path / "rubric.yaml"
    lines = (ROOT / "rubric.yaml").read_text().split("source_rules:")
    path.write_text(f"{lines[0]}{text}\n" + lines[1].partition("\n\n")[2])
    with pytest.raises(RubricError, match=f"rubric.yaml:{lines[0].count(chr(10)) + 1}: .*{says}"):
        load_rubric(path)


def test_every_rule_is_tried():
    tried = {mark.args[1][n][1] for mark in test_a_rule_finds.pytestmark for n in range(len(mark.args[1]))}
    assert tried == set(RULES)
