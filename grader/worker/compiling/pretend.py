"""Makes a compiling child look as if it had a certain GPU, so that host code launches what it would launch there.

Untrusted side, in a compiling child. Tensors are on the device `meta`: they have a form and no values, and they say
that they are on the GPU. Code that asks for a GPU's properties gets those of the one that is pretended.
"""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from grader.worker.compiling import resources

_DEVICE = torch.device("cuda", 0)
_META = torch.device("meta")
# What a tensor on the device `meta` would otherwise say of itself.
_ANSWERS: dict[Any, Any] = {
    torch.Tensor.device.__get__: _DEVICE,
    torch.Tensor.is_cuda.__get__: True,  # type: ignore[attr-defined]
    torch.Tensor.is_cpu.__get__: False,  # type: ignore[attr-defined]
    torch.Tensor.is_meta.__get__: False,  # type: ignore[attr-defined]
    torch.Tensor.get_device: 0,
}


class PretendedTensors(TorchFunctionMode):
    """While it is entered, tensors are made without memory and say that they are on the GPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer for the device, or run the function with `meta` in place of the GPU."""
        if func in _ANSWERS:
            return _ANSWERS[func]
        if func is torch.Tensor.cuda:
            return args[0]
        kwargs = kwargs or {}
        if func is torch.empty_like and len(args) == 1 and args[0].is_contiguous() and not kwargs.keys() - {"dtype"}:
            # torch's own way for `meta` imports a second's worth of modules.
            return torch.empty(args[0].shape, dtype=kwargs.get("dtype", args[0].dtype), device=_META)
        return func(*map(_on_meta, args), **{name: _on_meta(value) for name, value in kwargs.items()})


def _on_meta(value: Any) -> Any:
    is_gpu = (isinstance(value, torch.device) and value.type == "cuda") or (
        isinstance(value, str) and value.startswith("cuda")
    )
    return _META if is_gpu else value


def see(target: int, gpu: dict[str, Any]) -> None:
    """Have `torch.cuda` tell of a GPU of this capability; for good, in this process. `gpu`: name, multiprocessors."""
    capability = divmod(target, 10)
    properties = SimpleNamespace(
        name=gpu["name"],
        major=capability[0],
        minor=capability[1],
        multi_processor_count=gpu["multiprocessors"],
        warp_size=32,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=resources.shared_limit_bytes(target),
        total_memory=1 << 34,
    )
    answers: dict[str, Any] = {
        "is_available": True,
        "is_initialized": True,
        "device_count": 1,
        "current_device": 0,
        "get_device_name": gpu["name"],
        "get_device_capability": capability,
        "get_device_properties": properties,
        "is_bf16_supported": target >= 80,
        "synchronize": None,
        "set_device": None,
        "empty_cache": None,
        "device": contextlib.nullcontext(),
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, lambda *_args, _answer=answer, **_kwargs: _answer)
