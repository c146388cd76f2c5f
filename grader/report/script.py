"""A script that calls a submission on one case without the grader's processes, for a debugger."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from ..compare import Tolerance
from ..verdict import Verdict

_SCRIPT = '''\
"""{what}

Calls {entry} of {name} on this case in one process, without the grader's workers. Breakpoints inside kernels work:
programs run one after the other, in Triton's interpreter.

    python -m pdb {script}          # then: b FILE:LINE, c, p NAME
    python {script} [OTHER_FILE.py]

Exit status 0 if all values are right.
"""

import operator
import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported
FILE = {file!r}
ENTRY = {entry!r}
CASE = {case!r}
TOLERANCE = {tolerance!r}
GRADER = {root!r}  # the folder with reference/ and grader/; where this script was moved, one above it

around = [Path(GRADER), *Path(__file__).resolve().parents]
sys.path.append(str(next((folder for folder in around if (folder / "reference/exercise.py").is_file()), GRADER)))

import torch  # noqa: E402

import reference  # noqa: E402
from grader.arena import logical_inputs, storage_of  # noqa: E402
from grader.compare import Tolerance, compare  # noqa: E402
from grader.expected import expected_outputs  # noqa: E402
from grader.worker import interpreter  # noqa: E402
from reference.exercise import Case  # noqa: E402


def load(path):
    """The submission's entry point."""
    sys.path.append(str(path.resolve().parent))
    spec = spec_from_file_location(path.stem, path)
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    entry = operator.attrgetter(ENTRY)(module)
    return entry.apply if isinstance(entry, type) else entry


def inputs_of(case):
    """The tensors of the case, NaN in the gaps between their elements."""
    tensors = []
    for index, spec in enumerate(case.tensors):
        storage, offset, strides = storage_of(spec, case.dtype, case.seed, index)
        tensors.append(torch.as_strided(storage, spec.shape, strides, offset))
    return tensors


def main():
    # New memory is filled with NaN, so that what is never written shows.
    torch.use_deterministic_algorithms(True, warn_only=True)
    interpreter.install()
    case = Case.parse(CASE)
    exercise = reference.load(case.exercise)
    tensors = inputs_of(case)
    upstream = tensors[len(tensors) - len(exercise.upstream(case)) :]
    wanted = ["d" + spec.name for spec in case.tensors if "d" + spec.name in [g.name for g in exercise.gradients(case)]]
    leaves = [tensor.requires_grad_() for tensor, spec in zip(tensors, case.tensors) if "d" + spec.name in wanted]
    entry = load(Path(sys.argv[1] if len(sys.argv) > 1 else FILE))
    with interpreter.record(interpreter.Options(config_index=case.seed, tf32={tf32!r}, batch=False)) as record:
        result = entry(*exercise.bind(case, tensors))  # step into this call
        if upstream:
            result = torch.autograd.grad(result, leaves, upstream)
    for fault in record.faults:
        print(fault.message)
    outputs = result if isinstance(result, tuple) else (result,)
    tolerance = Tolerance(**TOLERANCE)
    right = not record.faults
    for output, expected in zip(outputs, expected_outputs(exercise, case, logical_inputs(case), tolerance)):
        if output.shape != expected.values.shape:
            print(f"{{expected.output.name}}.shape = {{list(output.shape)}}, expected {{list(expected.values.shape)}}")
            right = False
            continue
        wrong = compare(output.detach(), expected.values.detach(), expected.allowed.detach())
        if wrong is not None:
            where = ", ".join(map(str, wrong.index))
            print(f"{{expected.output.name}}[{{where}}] = {{wrong.seen:.6g}}, expected {{wrong.expected:.6g}} "
                  f"(allowed {{wrong.allowed:.2g}}); {{wrong.wrong}} of {{wrong.total}} elements are wrong")
            right = False
    print("right" if right else "wrong")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
'''


def debug_script(verdict: Verdict, tolerance: Tolerance, file: Path, entry: str, root: Path, *, script: Path,
                 tf32: bool) -> str:  # fmt: skip
    """The text of `script`. `file` is the submission's, `root` the folder that holds grader/ and reference/."""
    what = f"{verdict.status}: {verdict.message}"
    plain = what.replace("\\", "/").replace('"""', "'''")
    return _SCRIPT.format(case=verdict.case, what="".join(c if c.isprintable() else " " for c in plain), file=str(file),
                          name=file.name, entry=entry, root=str(root), script=script, tf32=tf32,
                          tolerance=asdict(tolerance))  # fmt: skip
