"""The programs that run as one numpy computation, and the values that differ between them (untrusted worker side).

A value that is the same in all programs is an ordinary handle: every function works on it as ever. One that differs is
a `Spread`, with an axis of programs in front. Functions that know about the axis ask for `raw`; all others ask for
`data`, which a spread handle refuses to give. So a batch is refused, and the launch run program by program, wherever
something isn't known to be the same either way.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from triton.runtime import interpreter

Array = np.ndarray[Any, Any]
Handle = interpreter.TensorHandle


# These three end a run of a batch, never the student's call; a kernel's `except Exception` must not stop them.
class Refused(BaseException):
    """These programs can't be run together; `lasting` where no launch of the kernel can.

    `program` is the first that stands in the way, where it is one and those before it don't.
    """

    def __init__(self, reason: str, lasting: bool = False, program: int | None = None) -> None:
        super().__init__(reason)
        self.reason, self.lasting, self.program = reason, lasting, program


class Diverged(BaseException):
    """Programs branch differently; those with equal `keys` may run together."""

    def __init__(self, keys: Array) -> None:
        super().__init__("programs branch differently")
        self.keys = keys


class TooWide(BaseException):
    """The batch holds too many lanes at `width` lanes a program."""

    def __init__(self, width: int) -> None:
        super().__init__(f"{width} lanes a program")
        self.width = width


def refuse(reason: str, lasting: bool = False) -> NoReturn:
    """Give up on running these programs together.

    Raises:
        Refused: always.

    """
    raise Refused(reason, lasting)


class Programs:
    """Programs of a launch by their place in its order, ascending, and their ids on each axis of the grid."""

    def __init__(self, index: Array, sizes: tuple[int, int, int]) -> None:
        self.index = index.astype(np.int32)
        self.count = int(index.size)
        self.first, self.last = int(index[0]), int(index[-1])
        plane = sizes[1] * sizes[2]
        self.ids = [ids.astype(np.int32) for ids in (index // plane, index // sizes[2] % sizes[1], index % sizes[2])]

    def column(self, axes: int) -> Array:
        """The programs' places as an array that broadcasts against blocks of so many axes."""
        return self.index.reshape((self.count,) + (1,) * axes)


class Spread(Handle):  # type: ignore[misc, valid-type]
    """A block or scalar of every program: `raw` has shape (programs, *dims), also for a scalar."""

    spread = True
    raw = property(operator.attrgetter("lanes"))

    def __init__(self, lanes: Array, dtype: Any) -> None:
        self.lanes = lanes
        self.dtype = dtype

    @property
    def data(self) -> Array:
        """Refuse: whoever asks doesn't know of the axis in front."""
        refuse("an operation that is done program by program")

    def clone(self) -> Spread:
        """Copy."""
        return Spread(self.lanes.copy(), self.dtype)

    def __bool__(self) -> bool:
        return bool(same_for_all(np.asarray(self.lanes.reshape(self.lanes.shape[0], -1).all(axis=1))))


def same_for_all(keys: Array) -> Any:
    """The value that all programs have.

    Raises:
        Diverged: they have several.

    """
    if (keys != keys[0]).any():
        raise Diverged(keys)
    return keys[0].item()


def lifted(raw: Array, missing: int) -> Array:
    """A spread array with further axes of length one between the programs and the block."""
    return raw.reshape(raw.shape[:1] + (1,) * missing + raw.shape[1:]) if missing > 0 else raw


def aligned(tensor: Any, rank: int) -> Array:
    """A tensor's array, such that it broadcasts against blocks of `rank` axes, spread or not."""
    handle = tensor.handle
    raw: Array = handle.raw
    return lifted(raw, rank - len(tensor.layout.dims)) if handle.spread else raw


def settled(handle: Spread, dims: tuple[int, ...]) -> Spread:
    """The handle with exactly the shape that the type says; a scalar and a block of one look alike before."""
    shape = (handle.lanes.shape[0], *dims)
    if handle.lanes.shape == shape:
        return handle
    if handle.lanes.size != np.prod(shape, dtype=np.int64):
        refuse("a block of another shape than its type says")
    return Spread(handle.lanes.reshape(shape), handle.dtype)


def any_spread(handles: Sequence[Any]) -> bool:
    """Whether a handle among these differs between programs."""
    return any(type(handle) is Spread for handle in handles)


def install() -> None:
    """Give ordinary handles the same two attributes."""
    Handle.spread = False
    Handle.raw = property(operator.attrgetter("data"))
