"""Untrusted side: logs the PyTorch operators that a call runs, so that work done by PyTorch shows."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class OperatorLog(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch's class has no types
    """Counts operators by name, with the largest number of elements that one call of each took in or gave out."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: otherwise the first operator imports all of torch's compiler, which takes seconds in each worker."""
        return False

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seen: dict[str, list[int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator and note it."""
        result = func(*args, **(kwargs or {}))
        elements = max((value.numel() for value in (*args, result) if isinstance(value, torch.Tensor)), default=0)
        count = self._seen.setdefault(f"{func.overloadpacket}".removeprefix("aten."), [0, 0])
        count[0] += 1
        count[1] = max(count[1], elements)
        return result

    def summary(self, most: int) -> list[dict[str, Any]]:
        """The operators with the largest tensors first."""
        ordered = sorted(self._seen.items(), key=lambda entry: -entry[1][1])
        return [
            {"name": name[:100], "calls": calls, "elements": elements} for name, (calls, elements) in ordered[:most]
        ]
