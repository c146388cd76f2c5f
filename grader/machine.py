"""Trusted side: what this machine can grade with: a zygote for the interpreter, one for the GPU where there is one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch

from reference.exercise import Case

from . import sandbox as sandboxes
from .errors import SelectionError
from .gpu_lock import held
from .launch import early_sandbox
from .peer_times import PeerTimes
from .peers import Peers
from .rubric import Limits
from .zygote import Zygote

if TYPE_CHECKING:
    from .device import Device

DeviceChoice = Literal["auto", "cpu", "cuda"]


class Machine:
    """The worker processes of one run. Raises SelectionError where the chosen device or sandbox is not there."""

    def __init__(self, limits: Limits, choice: DeviceChoice = "auto", *, spawn: bool = False,
                 sandbox: sandboxes.Choice = "L0", peer_times: Path | None = None) -> None:  # fmt: skip
        """With `peer_times`, a file, what PyTorch's baselines take is timed once for all who share it."""
        if choice == "cuda" and not torch.cuda.is_available():
            raise SelectionError("--device cuda: PyTorch finds no CUDA device; check nvidia-smi, or use --device cpu")
        if spawn and sandbox != "L0":
            raise SelectionError("--spawn-workers is for profiling one's own kernels; use it with --sandbox L0")
        self.has_gpu = choice != "cpu" and torch.cuda.is_available()
        early = None if self.has_gpu else early_sandbox(sandbox)
        self.sandbox = early or sandboxes.choose(sandbox, gpu=self.has_gpu)
        self.interpreter = Zygote(limits, sandbox=self.sandbox)
        self.gpu = Zygote(limits, "gpu", spawn=spawn, sandbox=self.sandbox) if self.has_gpu else None
        # Baselines come out of `reference`, which no process that runs a submission may read.
        self.baseline = self.gpu
        if self.has_gpu and self.sandbox.level != "L0":
            self.baseline = Zygote(limits, "gpu", sandbox=self.sandbox, baselines=True)
        self._peers: Peers | None = None
        self._peer_times = peer_times

    @property
    def values(self) -> Zygote:
        """Where the checks of values run: on the GPU where there is one."""
        return self.gpu or self.interpreter

    @property
    def torch_device(self) -> str:
        """The device type of the tensors in the checks of values."""
        return "cuda" if self.has_gpu else "cpu"

    def gpu_name(self) -> str | None:
        """The GPU's name, None without one."""
        return str(torch.cuda.get_device_name(0)) if self.has_gpu else None

    def driver(self) -> str | None:
        """The version of the GPU's driver, None without one."""
        if not self.has_gpu:
            return None
        from .device import driver_version

        return driver_version()

    def alone(self) -> AbstractContextManager[None]:
        """Hold the GPU alone among graders of this machine, for timing."""
        from .device import current_uuid

        return held(current_uuid(), alone=True)

    def shared(self, *, on_host: bool) -> AbstractContextManager[None]:
        """Keep timing by others off the GPU that values are judged on, for as long as the context is open."""
        if on_host or not self.has_gpu:
            return nullcontext()
        from .device import current_uuid

        return held(current_uuid(), alone=False)

    @cached_property
    def device(self) -> Device:
        """The GPU, with its rates measured on first use."""
        from .device import Device

        return Device.current()

    def peers(self, cases: Sequence[Case]) -> Peers:
        """What times the baselines beside the submission; the first call starts it, for all cases to come."""
        if self._peers is None:
            from .device import current_uuid

            kept = PeerTimes(self._peer_times, current_uuid()) if self._peer_times else None
            self._peers = Peers(cases, kept)
        return self._peers

    def start(self) -> None:
        """Launch the processes without waiting for them."""
        self.values.start()
        if self.gpu is not None:
            self.interpreter.start()

    def close(self) -> None:
        """End all processes."""
        for zygote in (self.interpreter, self.gpu, self.baseline):
            if zygote is not None:
                zygote.close()
        if self._peers is not None:
            self._peers.close()
