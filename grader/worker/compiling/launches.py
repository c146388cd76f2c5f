"""Stands in for Triton's launch: compiles what would have been launched, checks the launch, reports, runs nothing.

Untrusted side, in a compiling child: the driver, `JITFunction.run` and `Autotuner.run` are replaced for good there.
"""

from __future__ import annotations

import inspect
import operator
from typing import TYPE_CHECKING, Any

from triton import knobs
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime import driver
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import PTXASError, TritonError
from triton.runtime.jit import JITFunction

from grader.worker.compiling import details, errors, resources
from grader.worker.compiling.driver import StubDriver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from collections.abc import Set as AbstractSet

# What the compiler and a submission's grid functions are known to raise about a submission's code.
CODE_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    RuntimeError,  # with NotImplementedError and RecursionError
    SyntaxError,
    TritonError,
    TypeError,
    ValueError,
)
_MAX_CONFIGS = 8  # per tuned launch, where the caller names no number
_MAX_VARIANTS = 24  # compilations per kernel and target
_MAX_FAILURES = 2  # of one kernel in one configuration: a loop of launches needn't fail every time
_MAX_LAUNCHES = 512  # per target


class Enough(BaseException):
    """Ends a call that launches without end, as one that iterates until its output converges."""


class Launches:
    """Compiles each launch for the current target and sends a row per kernel, configuration and outcome.

    `send` takes one JSON-able message; `log` returns what was printed since it was last asked.
    """

    def __init__(self, send: Callable[[dict[str, Any]], None], log: Callable[[], str], files: AbstractSet[str]) -> None:
        self._send = send
        self._log = log
        self._files = files
        self._jits: list[Any] = []
        self._target = 0
        self._detailed = False
        self._max_configs = _MAX_CONFIGS
        self._config: str | None = None
        self._note = ""
        self._tuning = 0  # number of the tuned launch that is going on, 0 for none
        self._tunings = 0
        self._launches = 0
        self._failures: dict[tuple[int, str | None], int] = {}
        self._seen: set[tuple[int, str | None, str]] = set()
        self._compile = JITFunction.run

    def take_over(self, jits: Iterable[Any]) -> None:
        """Replaces Triton's launches in this process; `jits` are the jit functions that exist already."""
        self._jits.extend(jits)
        make = JITFunction.__init__

        def remember(jit: Any, *args: Any, **kwargs: Any) -> None:
            make(jit, *args, **kwargs)
            self._jits.append(jit)

        def launch(jit: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            return self.launch(jit, args, None if warmup else grid, kwargs)

        def tune(tuner: Any, *args: Any, **kwargs: Any) -> None:
            self.tune(tuner, args, kwargs)

        JITFunction.__init__ = remember
        JITFunction.run = launch
        Autotuner.run = tune
        knobs.runtime.interpret = False
        knobs.nvidia.dump_ptxas_log = True  # spills are told nowhere else

    def aim(self, target: int, gpu: dict[str, Any] | None = None) -> None:
        """Makes `target` the device that is seen from here on; with `gpu`, reports say what a kernel consists of."""
        self._target = target
        self._detailed = gpu is not None
        self._max_configs = gpu["max_configs"] if gpu else _MAX_CONFIGS
        self._launches = 0
        self._failures.clear()
        self._seen.clear()
        driver.set_active(StubDriver(target, gpu["multiprocessors"] if gpu else None))

    def tune(self, tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Compiles the configurations that Triton's autotuner would have timed for this launch."""
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        configs = tuner.configs if len(tuner.configs) == 1 else tuner.prune_configs(kwargs)
        if len(configs) > self._max_configs:
            self._note = f"the first {self._max_configs} of {len(configs)} configurations were compiled"
            if self._max_configs == 1:
                self._note = f"the first of {len(configs)} configurations was compiled"
        self._tunings += 1
        self._tuning = self._tunings
        try:
            for config in configs[: self._max_configs]:
                self._config = ", ".join(f"{name}={value}" for name, value in config.all_kwargs().items())
                if conflicts := sorted(kwargs.keys() & config.kwargs.keys()):
                    # Triton's words; its ValueError comes out of the launch.
                    caller = errors.launch_line(inspect.currentframe(), self._files)
                    message = f"Conflicting meta-parameters: {', '.join(conflicts)}. They are set by the autotuner."
                    self._report(_innermost(tuner), _placed(errors.Finding(message), caller), stage="compile")
                    break
                arguments = {**tuner.nargs, **kwargs, **config.all_kwargs()}
                # Hooks may shape what is compiled, as block shapes of descriptors made on the host.
                if config.pre_hook is not None:
                    config.pre_hook(arguments)
                tuner.pre_hook(arguments)
                tuner.fn.run(*args, **kwargs, **config.all_kwargs())
                tuner.post_hook(arguments, exception=None)
        finally:
            self._config, self._note, self._tuning = None, "", 0
        tuner.nargs = None

    def launch(self, jit: Any, args: tuple[Any, ...], grid: Any, kwargs: dict[str, Any]) -> Any:
        """Compiles one launch; returns Triton's compiled kernel, or None where there is none."""
        self._launches += 1
        if self._launches > _MAX_LAUNCHES:
            raise Enough
        key = (id(jit), self._config)
        made = jit.device_caches[self._target][0] if self._target in jit.device_caches else ()
        if self._failures.get(key, 0) >= _MAX_FAILURES or len(made) >= _MAX_VARIANTS:
            return None
        caller = errors.launch_line(inspect.currentframe(), self._files)
        self._send({"kind": "begin", **self._row(jit, errors.definition(jit))})
        self._log()
        try:
            kernel = self._compile(jit, *args, grid=(1,), warmup=True, **kwargs)
        except CODE_ERRORS as error:
            self._failures[key] = self._failures.get(key, 0) + 1
            found = errors.explain(error, jit, self._jits, self._files, self._log())
            if found.file is None:
                found = _placed(found, caller if _blames_launch(error) else errors.definition(jit))
            skippable = isinstance(error, CompileTimeAssertionFailure | PTXASError)
            if self._is_news(jit, found.message):
                self._report(jit, found, stage="compile", skippable=skippable)
            return None
        except OSError as error:
            self._send({"kind": "unavailable", "message": f"{type(error).__name__}: {error}"})
            raise
        self._check(jit, kernel, grid, args, kwargs, caller)
        return kernel

    def _check(self, jit: Any, kernel: Any, grid: Any, args: Any, kwargs: dict[str, Any], caller: Any) -> None:
        found = errors.definition(jit)
        sizes: list[int] = []
        message = resources.out_of_resources(kernel.metadata, self._target)
        skippable = bool(message)
        if not message and grid is not None:
            try:
                sizes = _sizes(jit, grid, args, kwargs)
            except CODE_ERRORS as error:
                message = f"the grid: {type(error).__name__}: {errors.clean(errors.text_of(error), jit)}"
                found = errors.raised_line(error, self._files)
                found = found if found.file else caller
            else:
                message = resources.launch_error(kernel.metadata, sizes)
                found = caller if message and caller.file else found
        if not self._is_news(kernel, message):
            return
        usage = resources.usage(kernel, self._log())
        self._report(
            jit,
            errors.Finding(message, found.file, found.line),
            stage="launch" if message else "ok",
            skippable=skippable,
            shared_bytes=kernel.metadata.shared,
            num_warps=kernel.metadata.num_warps,
            grid=sizes,
            registers=usage.registers,
            spills=usage.spills,
            stack_bytes=usage.stack_bytes,
            details=details.of(jit, kernel, args, kwargs) if self._detailed else None,
        )

    def _is_news(self, what: Any, message: str) -> bool:
        outcome = (id(what), self._config, message)
        if outcome in self._seen:
            self._send({"kind": "end"})
            return False
        self._seen.add(outcome)
        return True

    def _report(self, jit: Any, found: errors.Finding, **facts: Any) -> None:
        self._send({"kind": "kernel", **self._row(jit, found), "ok": not found.message, **facts})

    def _row(self, jit: Any, found: errors.Finding) -> dict[str, Any]:
        return {
            "kernel": jit.__name__,
            "target": self._target,
            "config": self._config,
            "ok": False,
            "stage": "compile",
            "error": found.message,
            "file": errors.file_name(found.file),
            "line": found.line,
            "shared_bytes": 0,
            "num_warps": 0,
            "grid": [],
            "registers": None,
            "spills": None,
            "stack_bytes": None,
            "note": self._note,
            "tuning": self._tuning,
            "skippable": False,
            "details": None,
        }


def _innermost(tuner: Any) -> Any:
    jit = tuner.fn
    while not isinstance(jit, JITFunction):
        jit = jit.fn
    return jit


def _placed(found: errors.Finding, place: errors.Finding) -> errors.Finding:
    return errors.Finding(found.message or "the compiler gave no reason", place.file, place.line)


def _blames_launch(error: BaseException) -> bool:
    # Triton raises these before it looks at the kernel's body: missing or misspelt arguments, options out of range.
    return isinstance(error, TypeError | KeyError | ValueError | AssertionError) and not isinstance(error, TritonError)


def _sizes(jit: Any, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int]:
    """The grid as Triton reads it: a function gets the kernel's parameters only, and three axes count."""
    if callable(grid):
        bound = jit.signature.bind(*args, **{name: kwargs[name] for name in jit.signature.parameters if name in kwargs})
        bound.apply_defaults()
        grid = grid(bound.arguments)
    given = [operator.index(grid[axis]) for axis in range(min(len(grid), 3))]
    if not given:
        raise ValueError("it is empty")
    return given + [1] * (3 - len(given))
