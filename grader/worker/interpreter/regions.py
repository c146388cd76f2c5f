"""Which bytes each tensor argument owns, by a tag in the top 16 bits of its addresses (untrusted worker side).

User-space addresses need 47 bits. A pointer argument carries its region's index above them, so an access is judged
against the argument it came from even where the heap neighbour is another argument, and nothing is copied.
"""

from __future__ import annotations

import ctypes
import functools
import math
from typing import Any

import numpy as np
import torch

Array = np.ndarray[Any, Any]

TAG_SHIFT = 48
ADDRESS_MASK = (1 << TAG_SHIFT) - 1
_LAST_TAG = 0x7FFF  # keeps tagged addresses positive as int64, for kernels that cast pointers to integers
_LARGEST_BITMAP = 1 << 31
_data_ptr = torch._C.TensorBase.data_ptr  # `record` replaces the method that the submission sees


class Region:
    """The elements of one tensor view, and their memory as flat numpy arrays."""

    def __init__(self, tag: int, name: str | None, tensor: torch.Tensor, dtype_name: str, itemsize: int) -> None:
        self.tag = tag
        self.name = name
        self.owner = tensor  # keeps the memory alive for as long as tagged addresses may exist
        self.dtype_name = dtype_name
        self.shape = list(tensor.shape)
        self.itemsize = itemsize
        self.low: int = _data_ptr(tensor)
        if tensor.numel():
            elements = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        else:
            elements = 0
        self.elements = elements
        self.span = elements * itemsize
        self.key = (self.low, self.span, itemsize)  # the same for arguments that are the same memory
        self.tagged_low = np.uint64(self.low | (tag << TAG_SHIFT))
        self.loaded: Array | None = None
        self.stored: Array | None = None
        self._flat: dict[np.dtype[Any], Array] = {}

    @functools.cached_property
    def present(self) -> Array | None:
        """Which elements of the span belong to the view; None where all do."""
        tensor = self.owner
        strided = [
            (size, stride) for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride and size > 1
        ]
        if math.prod(size for size, _ in strided) >= self.elements or self.elements > _LARGEST_BITMAP:
            return None
        present = np.zeros(self.elements, dtype=bool)
        shape = [size for size, _ in strided]
        view = np.lib.stride_tricks.as_strided(present, shape, [stride for _, stride in strided])
        view[...] = True
        return present

    def flat(self, dtype: np.dtype[Any]) -> Array:
        """The span's memory as an array of `dtype`."""
        array = self._flat.get(dtype)
        if array is None:
            memory = (ctypes.c_char * self.span).from_address(self.low)
            array = np.frombuffer(memory, dtype=dtype, count=self.span // dtype.itemsize)  # type: ignore[call-overload]
            self._flat[dtype] = array
        return array

    def owned(self, offsets: Array, size: int) -> Array:
        """Per access of `size` bytes at `offsets` (uint64, from the start), whether every byte is the view's."""
        if self.span < size:
            return np.zeros(offsets.shape, dtype=bool)
        inside = offsets <= np.uint64(self.span - size)
        if self.present is not None and inside.any():
            safe = np.where(inside, offsets, 0).astype(np.int64)
            inside &= self.present[safe // self.itemsize] & self.present[(safe + (size - 1)) // self.itemsize]
        return inside

    def touch(self, kind: str, index: Array, itemsize: int) -> None:
        """Remember which elements were accessed, for the count of unique bytes."""
        seen = getattr(self, kind)
        if seen is None:
            seen = np.zeros(max(self.elements, 1), dtype=bool)
            setattr(self, kind, seen)
        seen[index if itemsize == self.itemsize else index * itemsize // self.itemsize] = True


class Regions:
    """The regions of one call: pointer arguments by tag, and tensors whose `data_ptr()` the submission asked for."""

    def __init__(self) -> None:
        self.tagged: list[Region | None] = [None]
        self.asked: list[Region] = []
        self._known: dict[tuple[Any, ...], Region] = {}

    def tag(self, name: str, tensor: torch.Tensor, dtype_name: str, itemsize: int) -> Region | None:
        """The region of an argument; None when the tags are used up."""
        key = (name, _data_ptr(tensor), tuple(tensor.shape), tensor.stride(), dtype_name)
        region = self._known.get(key)
        if region is None:
            if len(self.tagged) > _LAST_TAG:
                return None
            region = Region(len(self.tagged), name, tensor, dtype_name, itemsize)
            self.tagged.append(region)
            self._known[key] = region
        return region

    def ask(self, tensor: torch.Tensor) -> None:
        """Allow plain integer addresses inside `tensor` (kernels that are given arrays of pointers)."""
        key = (_data_ptr(tensor), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        if key not in self._known:
            name = str(tensor.dtype).removeprefix("torch.")
            region = Region(0, None, tensor, name, tensor.element_size())
            self._known[key] = region
            self.asked.append(region)

    def candidates(self, address: int) -> list[Region]:
        """The regions in which `address` may lie."""
        tag = address >> TAG_SHIFT
        if tag == 0:
            return self.asked
        region = self.tagged[tag] if tag < len(self.tagged) else None
        return [] if region is None else [region]

    def loaded_between(self, low: int, high: int) -> bool:
        """Whether anything was loaded from a region that starts between two addresses."""
        return any(region is not None and low <= region.low < high and region.loaded is not None and region.loaded.any()
                   for region in (*self.tagged, *self.asked))  # fmt: skip

    def stored_elements(self, tensor: torch.Tensor) -> int | None:
        """How many elements of a tensor were stored to through arguments; None where no argument was this tensor."""
        low, total = _data_ptr(tensor), tensor.numel()
        of_tensor = [region for region in self.tagged[1:] if region is not None and region.low == low]
        if not of_tensor:
            return None
        counts = [int(np.count_nonzero(region.stored)) for region in of_tensor if region.stored is not None]
        return min(total, max(counts, default=0))

    def unique_bytes(self) -> tuple[int, int]:
        """Distinct bytes loaded and stored; overlapping arguments are counted apart."""
        totals = [0, 0]
        for region in [*self.tagged[1:], *self.asked]:
            if region is not None:
                for position, seen in enumerate((region.loaded, region.stored)):
                    if seen is not None:
                        totals[position] += int(np.count_nonzero(seen)) * region.itemsize
        return totals[0], totals[1]
