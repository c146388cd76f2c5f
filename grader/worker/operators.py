"""Untrusted side: logs the PyTorch operators that a call runs, so that work done by PyTorch shows."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class OperatorLog(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch's class has no types
    """Counts operators by name: calls, the elements of their largest tensor, and the bytes of all their tensors.

    `allocated_bytes` adds up what is new memory in their results, `largest_allocated` has the shape of the most of it.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: otherwise the first operator imports all of torch's compiler, which takes seconds in each worker."""
        return False

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seen: dict[str, list[int]] = {}
        self.allocated_bytes = 0
        self.largest_allocated: list[int] = []
        self._largest_bytes = -1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator and note it."""
        result = func(*args, **(kwargs or {}))
        results = result if isinstance(result, tuple) else (result,)
        known = _storages(args)
        new = [value for value in results if _storages([value]).isdisjoint(known)]
        name = _name(func, new)
        # What is filled has the form of an argument, and reads nothing of it.
        taken = () if name.startswith("new_") or name.endswith("_like") else args
        # By identity: an operator that works in place gives back its argument.
        tensors = {id(value): value for value in (*taken, *results) if isinstance(value, torch.Tensor)}.values()
        count = self._seen.setdefault(name, [0, 0, 0])
        count[0] += 1
        count[1] = max([count[1], *(tensor.numel() for tensor in tensors)])
        count[2] += sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        self._note_new(new)
        return result

    def _note_new(self, new: list[Any]) -> None:
        for value in new:
            if _is_dense(value):
                size = value.untyped_storage().nbytes()
                self.allocated_bytes += size
                if size > self._largest_bytes:
                    self._largest_bytes, self.largest_allocated = size, list(value.shape)[:16]

    def summary(self, most: int) -> list[dict[str, Any]]:
        """The operators with the largest tensors first."""
        ordered = sorted(self._seen.items(), key=lambda entry: -entry[1][1])
        return [
            {"name": name[:100], "calls": calls, "elements": elements, "bytes_touched": touched}
            for name, (calls, elements, touched) in ordered[:most]
        ]


# Under torch.inference_mode these are not taken apart: a view, or else a copy.
_VIEW_OR_COPY = frozenset({"reshape", "ravel", "flatten", "contiguous", "type_as", "to"})


def _name(func: Any, new: list[Any]) -> str:
    """The operator's name; `view` where none of its results is `new` memory and it changes nothing."""
    name = f"{func.overloadpacket}".removeprefix("aten.")
    if not new and not func._schema.is_mutable:
        return "view"
    return "clone" if name in _VIEW_OR_COPY else name


def _storages(values: Any) -> set[int]:
    return {value.untyped_storage().data_ptr() for value in values if _is_dense(value)}


def _is_dense(value: Any) -> bool:
    """Whether it is a tensor with a storage of its own."""
    return isinstance(value, torch.Tensor) and value.layout is torch.strided
