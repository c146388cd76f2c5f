"""Untrusted side: logs the PyTorch operators that a call runs, so that work done by PyTorch shows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

MOST_WAITING = 16384  # operators that are noted and not yet counted


class _Tensor(NamedTuple):
    """What an operator took or gave back: a tensor's numbers. `storage` is None where it has none of its own."""

    identity: int
    shape: Sequence[int]
    element_bytes: int
    storage: int | None
    storage_bytes: int


class OperatorLog(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch's class has no types
    """Counts operators by name: calls, the elements of their largest tensor, and the bytes of all their tensors."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: otherwise the first operator imports all of torch's compiler, which takes seconds in each worker."""
        return False

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._waiting: list[tuple[Any, list[_Tensor], list[_Tensor | None]]] = []
        self._seen: dict[str, list[int]] = {}
        self._allocated_bytes = 0
        self._largest: _Tensor | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator and note it.

        In timed rounds this is booked on the submission: it keeps a few numbers, which are looked at later. The tensors
        themselves it can't keep, as their memory is to be used again.
        """
        result = func(*args, **(kwargs or {}))
        results = result if isinstance(result, tuple) else (result,)
        taken = [_facts(value) for value in args if isinstance(value, torch.Tensor)]
        given = [_facts(value) if isinstance(value, torch.Tensor) else None for value in results]
        self._waiting.append((func, taken, given))
        if len(self._waiting) >= MOST_WAITING:
            self._count()
        return result

    def _count(self) -> None:
        """Count what ran since the last time."""
        for func, arguments, results in self._waiting:
            known = {tensor.storage for tensor in arguments} - {None}
            new = [result for result in results if result is None or result.storage not in known]
            name = _name(func, new)
            # What is filled has the form of an argument, and reads nothing of it.
            taken = [] if name.startswith("new_") or name.endswith("_like") else arguments
            # By identity: an operator that works in place gives back its argument.
            tensors = {tensor.identity: tensor for tensor in (*taken, *results) if tensor is not None}.values()
            count = self._seen.setdefault(name, [0, 0, 0])
            count[0] += 1
            count[1] = max([count[1], *(prod(tensor.shape) for tensor in tensors)])
            count[2] += sum(prod(tensor.shape) * tensor.element_bytes for tensor in tensors)
            for tensor in new:
                if tensor is not None and tensor.storage is not None:
                    self._allocated_bytes += tensor.storage_bytes
                    if self._largest is None or tensor.storage_bytes > self._largest.storage_bytes:
                        self._largest = tensor
        self._waiting.clear()

    @property
    def allocated_bytes(self) -> int:
        """How much memory the results are made of that is new."""
        self._count()
        return self._allocated_bytes

    @property
    def largest_allocated(self) -> list[int]:
        """The shape of the result with the most new memory; empty where there is none."""
        self._count()
        return list(self._largest.shape)[:16] if self._largest else []

    def summary(self, most: int) -> list[dict[str, Any]]:
        """The operators with the largest tensors first."""
        self._count()
        ordered = sorted(self._seen.items(), key=lambda entry: -entry[1][1])
        return [
            {"name": name[:100], "calls": calls, "elements": elements, "bytes_touched": touched}
            for name, (calls, elements, touched) in ordered[:most]
        ]


# Under torch.inference_mode these are not taken apart: a view, or else a copy.
_VIEW_OR_COPY = frozenset({"reshape", "ravel", "flatten", "contiguous", "type_as", "to"})


def _name(func: Any, new: Sequence[Any]) -> str:
    """The operator's name; `view` where none of its results is `new` memory and it changes nothing."""
    name = f"{func.overloadpacket}".removeprefix("aten.")
    if not new and not func._schema.is_mutable:
        return "view"
    return "clone" if name in _VIEW_OR_COPY else name


def _facts(tensor: torch.Tensor) -> _Tensor:
    if tensor.layout is not torch.strided:  # has no storage of its own
        return _Tensor(id(tensor), tensor.shape, tensor.element_size(), None, 0)
    storage = tensor.untyped_storage()
    return _Tensor(id(tensor), tensor.shape, tensor.element_size(), storage.data_ptr(), storage.nbytes())
