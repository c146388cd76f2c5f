"""What a compiled kernel consists of, for whoever wants to look into it: its PTX, the launch's arguments and constants.

Untrusted side.
"""

from __future__ import annotations

import base64
import re
import zlib
from typing import Any

_MAX_PTX_BYTES = 150_000  # compressed: one reply holds a few
_COPY_ENGINE = 90  # the first capability with it
_DOT = re.compile(r"= (?:tt\.dot|ttng\.warp_group_dot|ttng\.tc_gen5_mma)\b|\bttng\.tc_gen5_mma ")


def of(jit: Any, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Everything that is JSON-able and worth knowing of one compiled launch.

    - ptx: base64 of the zlib-compressed text without debug sections, "" where it is too long.
    - arguments: the launch's, in the order of the PTX's parameters: "pointer", an integer, or None for anything else.
      The list ends where an argument has several parameters.
    - constants: its compile-time constants. dots: how many products of tiles it has.
    """
    ptx = kernel.asm["ptx"].partition(".section\t.debug")[0]
    packed = base64.b64encode(zlib.compress(ptx.encode(), 9)).decode()
    bound = jit.signature.bind(*args, **{name: kwargs[name] for name in jit.signature.parameters if name in kwargs})
    bound.apply_defaults()
    return {
        "ptx": packed if len(packed) <= _MAX_PTX_BYTES else "",
        "arguments": _flat(bound.arguments, kernel.src.signature, on_host=kernel.metadata.target.arch >= _COPY_ENGINE),
        "constants": _constants(bound.arguments, jit),
        "dots": len(_DOT.findall(kernel.asm["ttgir"])),
        "num_stages": getattr(kernel.metadata, "num_stages", None),
        "tensor_memory_columns": getattr(kernel.metadata, "tmem_size", None) or 0,
    }


def _flat(values: dict[str, Any], signature: dict[str, Any], *, on_host: bool) -> list[Any]:
    """`on_host`: whether descriptors of tensors are made on the host, as for the copy engine of Hopper and later."""
    flat: list[Any] = []
    for name, kind in signature.items():
        if not _take(values[name], kind, flat, on_host):
            break
    return flat


def _take(value: Any, kind: Any, flat: list[Any], on_host: bool) -> bool:
    """Appends the parameters of one argument; False where it isn't known how many they are."""
    if isinstance(kind, tuple):  # of a Python tuple
        return all(_take(inner, of_inner, flat, on_host) for inner, of_inner in zip(value, kind, strict=False))
    if not isinstance(kind, str):
        return False
    if kind == "constexpr":
        return True
    if kind.startswith("*"):
        flat.append("pointer")
    elif isinstance(value, int):
        flat.append(int(value))
    elif isinstance(value, float):
        flat.append(None)
    elif kind.startswith("tensordesc") and on_host:
        flat += [None, *map(int, value.shape), *map(int, value.strides)]
    else:
        return False
    return True


def _constants(values: dict[str, Any], jit: Any) -> dict[str, Any]:
    """The launch's compile-time constants that are plain values."""
    names = [parameter.name for parameter in jit.params if parameter.is_constexpr]
    return {name: values[name] for name in names if isinstance(values.get(name), bool | int | float | str)}
