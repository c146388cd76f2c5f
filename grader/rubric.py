"""Policy: points, weights, dtypes, limits and tolerances, read from `rubric.yaml`. Errors name file and line."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

import reference
from reference.exercise import DTYPES, Case
from reference.harness import Harness

from .compare import Tolerance, default_tolerance
from .errors import RubricError
from .source_rules import RULES, SUSPICIONS
from .yaml_file import line_of, read_mapping

DtypeName = Literal["float32", "float16", "bfloat16"]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Visibility = Literal["visible", "generic", "after_due_date", "after_published", "hidden"]
Target = Annotated[int, Field(ge=75, le=130)]  # a compute capability
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
# Where the rubric says nothing: how far off a measured time may be.
WITHIN = 0.05


def _inside_the_submission(file: str) -> str:
    path = PurePosixPath(file)
    if path.is_absolute() or ".." in path.parts or path.suffix != ".py":
        raise ValueError("must be a .py file, relative to the submission's folder and inside it")
    return file


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Cases(_Model):
    """How many cases an item judges, and for how long. The listed edge cases always run; `generated` come on top."""

    generated: int = Field(default=8, ge=0, le=10_000, description="cases drawn for each item")
    budget_s: Positive = Field(default=20.0, description="after so many seconds an item draws no more cases")
    case_timeout_s: Positive = Field(default=20.0, description="for one call; on a GPU, compiling has time of its own")
    shrink_s: Weight = Field(default=4.0, description="for finding a smaller failure; 0 reports the first as it is")


class Adequacy(_Model):
    """What `grader adequacy` asks of each exercise: the share of faults that are caught, of how many that it grades."""

    share: float = Field(default=0.99, gt=0, le=1, description="of the faults graded, what must be caught")
    mutants: int = Field(default=30, ge=1, description="faults graded of an exercise, at most")


class Limits(_Model):
    """What one worker process may use."""

    memory_mib: int = Field(default=4096, ge=256, description="of data in each of its processes")
    processes: int = Field(default=64, ge=1, description="and threads, at a time; root is exempt without a sandbox")
    cpu_s: int = Field(default=600, ge=1, description="of each of its processes")
    tmp_mib: int = Field(default=512, ge=1, description="of its /tmp, where the sandbox gives it one")
    output_kib: int = Field(default=64, ge=1, description="how much of its output is kept")


class SourceRules(_Model):
    """What a submission's source may hold: `grader/source_rules.py` has the rules."""

    enabled: bool = Field(default=True, description="false reads no source")
    imports: tuple[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")], ...] = Field(
        default=("torch", "triton", "numpy", "nvtx"), description="modules besides standard ones that only compute"
    )
    rules: Mapping[Literal[*RULES], Literal["forbid", "warn", "ignore"]] = Field(  # type: ignore[valid-type]
        default_factory=dict, description="what single rules do; `warn` tells staff only"
    )

    def severity(self, rule: str) -> str:
        """What a rule does: forbid, warn or ignore."""
        return self.rules.get(rule, "warn" if rule in SUSPICIONS else "forbid")


class ToleranceException(_Model):
    """Replaces single numbers of the derived tolerance; `grader/compare.py` says what they mean."""

    rtol: Weight | None = Field(default=None, description="of the right value")
    atol: Weight | None = Field(default=None, description="of the exercise's `scale`")
    rms_atol: Weight | None = Field(default=None, description="of its `rms_scale`")
    operand_rtol: Weight | None = Field(default=None, description="of its `operand_scale`")


class Fused(_Model):
    """What a call may take, on the cases of the check `fused`. The least bytes are those of the exercise's `cost`."""

    launches: int = Field(default=1, ge=1, description="of kernels, PyTorch's included")
    traffic: Annotated[float, Field(ge=1, allow_inf_nan=False)] = Field(
        default=1.1, description="bytes moved, as a multiple of the least"
    )
    memory: Positive | None = Field(
        default=None, description="bytes allocated, as a multiple of the least moved; without it there is no limit"
    )


class Thresholds(_Model):
    """Speedups over the baseline; between the two, points grow with the speedup's logarithm."""

    floor: Positive = Field(description="the speedup up to which there are no points")
    target: Positive = Field(description="the speedup from which on there are all; must be larger")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.target <= self.floor:
            raise ValueError("target must be larger than floor")
        return self


class Benchmark(Thresholds):
    """One timed problem."""

    sizes: tuple[tuple[Annotated[int, Field(ge=1)], ...], ...] = Field(
        description="the shape of each input, in the order of the arguments"
    )
    options: Mapping[str, bool | int | float] = Field(
        default_factory=dict, description="the exercise's options that are not as usual"
    )
    dtype: DtypeName = Field(description="of the inputs")
    baseline: str = Field(description="what it is compared with: one of the exercise's baselines, or `compile`")
    gpus: Mapping[str, Thresholds] = Field(
        default_factory=dict, description="other thresholds, by a part of the GPU's name; the first that fits"
    )

    def thresholds(self, gpu: str) -> Thresholds:
        """The thresholds for the GPU of this name."""
        return next((own for name, own in self.gpus.items() if name in gpu), self)

    def __str__(self) -> str:
        options = "".join(f".{name}={value}" for name, value in self.options.items())
        return f"{'_'.join('x'.join(map(str, shape)) for shape in self.sizes)}{options}.{self.dtype}"


class Reports(_Model):
    """What a student's report shows: `docs/reports.md`."""

    visibility: Mapping[str, Visibility] = Field(
        default_factory=dict, description="by check; what is not named is `visible`"
    )
    leaderboard: bool = Field(default=False, description="Gradescope shows speedups there")
    docs: str = Field(
        default="", pattern=r"^(https?://\S+/)?$", description="the address of the folder with `pitfalls.md`, for links"
    )


class Release(_Model):
    """What a handout has other than staff do: `docs/release.md`. A handout's rubric has no such block."""

    public: Mapping[str, Any] = Field(
        default_factory=dict, description="laid over the rubric; null leaves a key out; what it replaces is kept secret"
    )
    reference: Literal["source", "compiled"] = Field(default="source", description="how oracles are handed out")
    url: str = Field(
        default="", pattern=r"^((https|ssh|file)://[\w./:@%+~-]+)?$", description="whence CI fetches the handout"
    )
    tag: str = Field(default="", pattern=r"^([\w.][\w./-]*)?$", description="and at which tag")


class ExerciseRubric(_Model):
    """One exercise: its points and where it differs from the defaults."""

    points: Positive = Field(description="for everything right and fast")
    file: Annotated[str, AfterValidator(_inside_the_submission)] | None = Field(
        default=None, description="the submission's file, inside its folder; else `<id>.py`"
    )
    entry: str | None = Field(
        default=None, pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$",
        description="its function, or an autograd.Function, perhaps dotted; else `<id>`",
    )  # fmt: skip
    weights: Mapping[str, Weight] | None = Field(default=None, description="laid over the rubric's")
    dtypes: tuple[DtypeName, ...] | None = Field(default=None, min_length=1, description="in place of the rubric's")
    targets: tuple[Target, ...] | None = Field(default=None, min_length=1, description="in place of the rubric's")
    tf32: bool | None = Field(default=None, description="in place of the rubric's")
    fused: Fused = Field(default=Fused(), description="what a call may take")
    speed: tuple[Benchmark, ...] = Field(
        default=(), description="timed problems; without any, the points of `speed` go to the other checks"
    )
    tolerances: Mapping[DtypeName, ToleranceException] = Field(default_factory=dict, description="exceptions, by dtype")
    within: Annotated[float, Field(gt=0, lt=0.1)] | None = Field(
        default=None, description=f"for exercises in measuring: by what part a time may be off; else {WITHIN}"
    )

    def keys_of_others(self, *, measuring: bool) -> list[str]:
        """The keys that are given and are for the other kind of exercise."""
        others = _OF_KERNELS if measuring else {"within"}
        return [key for key in type(self).model_fields if key in self.model_fields_set & others]


# What an exercise in measuring has no use for.
_OF_KERNELS = {"entry", "dtypes", "targets", "tf32", "fused", "speed", "tolerances"}


class Rubric(_Model):
    """The whole policy of an assignment."""

    version: Literal["grader.rubric/1"] = Field(alias="schema", description="this form of a rubric")
    title: str = Field(min_length=1, description="of the assignment, in handouts and reports")
    seed: int = Field(ge=0, description="of the drawn cases; staff grade with another by `--seed` or a hidden one")
    dtypes: tuple[DtypeName, ...] = Field(
        default=("float32", "float16", "bfloat16"), min_length=1, description="that exercises are graded in"
    )
    weights: Mapping[str, Weight] = Field(
        description="by check; an exercise's points are split by them, then evenly over dtypes. 0, or none: not graded"
    )
    tf32: bool = Field(default=True, description="whether float32 products may use TF32, as tl.dot does on a GPU")
    targets: tuple[Target, ...] = Field(
        default=(80, 90), min_length=1, description="compute capabilities that every kernel is compiled for"
    )
    cases: Cases = Field(default=Cases(), description="how many, and for how long")
    limits: Limits = Field(default=Limits(), description="of a worker process")
    source_rules: SourceRules = Field(default=SourceRules(), description="on a submission's source")
    report: Reports = Field(default=Reports(), description="what students see")
    adequacy: Adequacy = Field(default=Adequacy(), description="what is asked of the checks")
    release: Release = Field(default=Release(), description="what is handed out")
    exercises: Mapping[str, ExerciseRubric] = Field(min_length=1, description="by id, in the order of reports")

    @model_validator(mode="after")
    def _exercises_exist(self) -> Rubric:
        known = reference.exercise_ids()
        for name, exercise in self.exercises.items():
            if name not in known:
                raise _LocatedError(
                    ("exercises", name), f"there is no exercise {name!r}; reference/ has {', '.join(known)}"
                )
            measuring = isinstance(reference.find(name), Harness)
            for key in exercise.keys_of_others(measuring=measuring):
                kind = "measuring" if measuring else "writing kernels"
                raise _LocatedError(("exercises", name, key), f"{name} is an exercise in {kind}, which has no {key}")
            checks = reference.find(name).checks
            own = exercise.weights or {}
            for check in own:
                if check not in checks:
                    raise _LocatedError(("exercises", name, "weights", check),
                                   f"{name} has no check {check!r}; it has {', '.join(checks)}")  # fmt: skip
            for number, benchmark in enumerate(exercise.speed):
                place = ("exercises", name, "speed", number)
                of_exercise = reference.load(name)
                known_baselines = [*of_exercise.baselines, "compile"]
                if benchmark.baseline not in known_baselines:
                    problem = f"{name} has no baseline {benchmark.baseline!r}; it has {', '.join(known_baselines)}"
                    raise _LocatedError((*place, "baseline"), problem)
                most = len(of_exercise.tensors)
                if not most - len(of_exercise.optional) <= len(benchmark.sizes) <= most:
                    problem = f"{name} takes {', '.join(of_exercise.tensors)}: give a shape for each"
                    raise _LocatedError((*place, "sizes"), problem)
                if unknown := set(benchmark.options) - set(of_exercise.options):
                    problem = f"{name} has no option {unknown.pop()!r}; it has {', '.join(of_exercise.options)}"
                    raise _LocatedError((*place, "options"), problem)
            if not any(self.weights_of(name).values()):
                raise _LocatedError(("exercises", name), f"all weights of {name} are 0, so its points go nowhere")
        every = {check for name in self.exercises for check in reference.find(name).checks}
        named = [("weights", check) for check in self.weights]
        for keys in [*named, *(("report", "visibility", check) for check in self.report.visibility)]:
            if keys[-1] not in every:
                raise _LocatedError(keys, f"no exercise of this rubric has a check {keys[-1]!r}")
        return self

    def weights_of(self, exercise_id: str) -> dict[str, float]:
        """Weight per check of an exercise, in the exercise's order; checks without a weight are not graded."""
        merged = {**self.weights, **(self.exercises[exercise_id].weights or {})}
        checks = [check for check in reference.find(exercise_id).checks if merged.get(check, 0) > 0]
        if not self.exercises[exercise_id].speed:  # nothing to time: its points go to the other checks
            checks = [check for check in checks if check != "speed"]
        return {check: merged[check] for check in checks}

    def dtypes_of(self, exercise_id: str) -> tuple[str, ...]:
        """The dtypes an exercise is graded in; one without a name where there are no tensors."""
        if isinstance(reference.find(exercise_id), Harness):
            return ("",)
        return self.exercises[exercise_id].dtypes or self.dtypes

    def within_of(self, exercise_id: str) -> float:
        """By what part a time that the submission measured may be off."""
        own = self.exercises[exercise_id].within
        return WITHIN if own is None else own

    def targets_of(self, exercise_id: str) -> tuple[int, ...]:
        """The compute capabilities that an exercise's kernels are compiled for."""
        return self.exercises[exercise_id].targets or self.targets

    def tf32_of(self, exercise_id: str) -> bool:
        """Whether float32 products of an exercise may use TF32."""
        own = self.exercises[exercise_id].tf32
        return self.tf32 if own is None else own

    def tolerance_of(self, exercise_id: str, dtype: str, reduction_length: int) -> Tolerance:
        """The derived tolerance with this rubric's exceptions put in."""
        exercise = reference.load(exercise_id)
        tf32 = self.tf32_of(exercise_id) and exercise.rms_scale is not None
        derived = default_tolerance(dtype, reduction_length, tf32=tf32)
        exception = self.exercises[exercise_id].tolerances.get(dtype)  # type: ignore[call-overload]
        if exception is None:
            return derived
        return replace(derived, **exception.model_dump(exclude_none=True))

    def tolerance_for(self, case: Case) -> Tolerance:
        """The tolerance of a case, whose reductions are as long as its tensors make them."""
        exercise = reference.load(case.exercise)
        backward = exercise.gradient if exercise.gradients(case) else None
        length_of = backward.reduction_length if backward else exercise.reduction_length
        length = length_of(exercise.shapes(case), **exercise.options_of(case))
        return self.tolerance_of(case.exercise, case.dtype, length)

    def file_of(self, exercise_id: str) -> str:
        """The submission's file, relative to its folder."""
        return self.exercises[exercise_id].file or f"{exercise_id}.py"

    def entry_of(self, exercise_id: str) -> str:
        """The dotted name of the entry point in that file."""
        return self.exercises[exercise_id].entry or exercise_id


@dataclass(frozen=True)
class LoadedRubric:
    """A rubric with where it came from: the path and the SHA-256 of its bytes, for the result."""

    rubric: Rubric
    path: Path
    sha256: str


class _LocatedError(ValueError):
    """A problem at a known place of the document."""

    def __init__(self, place: tuple[str | int, ...], problem: str) -> None:
        super().__init__(problem)
        self.place = place


def load_rubric(path: Path) -> LoadedRubric:
    """Read and check a rubric. Raises RubricError with file, line and remedy."""
    start = "'schema: grader.rubric/1'"
    data, root = read_mapping(path, partial(RubricError, path), start=start, option="--rubric")
    try:
        rubric = Rubric.model_validate(yaml.safe_load(data))
    except ValidationError as error:
        first = error.errors()[0]
        cause = first.get("ctx", {}).get("error")
        place = cause.place if isinstance(cause, _LocatedError) else first["loc"]
        where = ".".join(map(str, place)) or "the rubric"
        problem = str(cause) if isinstance(cause, _LocatedError) else f"{where}: {_explain(first)}"
        raise RubricError(path, line_of(root, place), problem) from None
    except yaml.YAMLError as error:
        raise RubricError(path, None, f"is not YAML: {error}") from None
    return LoadedRubric(rubric, path, hashlib.sha256(data).hexdigest())


def _explain(error: Any) -> str:
    if error["type"] == "extra_forbidden":
        return "is not a key that a rubric has here; take it out or correct its spelling"
    if error["type"] == "missing":
        return "is missing; add it"
    if error["type"] == "literal_error" and "float32" in error["ctx"]["expected"]:
        return f"{error['input']!r} is not a dtype; known: {', '.join(DTYPES)}"
    return f"{error['msg']} (found {error['input']!r})"
