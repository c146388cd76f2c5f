"""`triton.autotune` on a CPU: one configuration, chosen by the judge (untrusted worker side).

Timing configurations means nothing in an interpreter. The judge picks the configuration per case instead, so that over
the cases of a check every one is run.
"""

from __future__ import annotations

from typing import Any

from triton.runtime import autotuner
from triton.runtime.interpreter import InterpretedFunction

from . import state


def _candidates(tuner: Any, kwargs: dict[str, Any]) -> list[Any]:
    """The configurations left after pruning, or all of them where pruning asks for a GPU."""
    if len(tuner.configs) < 2:
        return list(tuner.configs)
    try:
        return list(tuner.prune_configs(kwargs))
    except (RuntimeError, AssertionError, OSError):  # what torch.cuda and triton's driver raise without a GPU
        return list(tuner.configs)


def _run(tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    session = state.current.session
    tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
    try:
        candidates = _candidates(tuner, kwargs)
        config = candidates[session.options.config_index % len(candidates)]
        conflicts = kwargs.keys() & config.kwargs.keys()
        if conflicts:
            raise ValueError(
                f"Conflicting meta-parameters: {', '.join(sorted(conflicts))}."
                " Make sure that you don't re-define auto-tuned symbols."
            )
        tuner.best_config = config
        full = {**tuner.nargs, **kwargs, **config.all_kwargs()}
        # `reset_to_zero` is for the tuning, which real Triton does once for a key: no call may rely on it.
        if config.pre_hook is not None:
            config.pre_hook(full)
        session.config, session.num_configs = str(config), len(candidates)
        return tuner.fn.run(*args, **kwargs, **config.all_kwargs())
    finally:
        tuner.nargs = None
        session.config, session.num_configs = None, 1


def _is_interpreted(tuner: Any) -> bool:
    fn = tuner.fn
    while isinstance(fn, (autotuner.Autotuner, autotuner.Heuristics)):
        fn = fn.fn
    return isinstance(fn, InterpretedFunction)


def install() -> None:
    """Replace the tuner's search."""
    original = autotuner.Autotuner.run

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _run(self, args, kwargs) if _is_interpreted(self) else original(self, *args, **kwargs)

    autotuner.Autotuner.run = run
