"""Device memory shared between processes as a file descriptor, by CUDA's virtual memory API. Both sides import this.

torch's own CUDA IPC fails as soon as the worker has another uid or user namespace; a descriptor passed over a Unix
socket does not (CUDA Driver API, "Virtual Memory Management").
"""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver


class DeviceMemoryError(Exception):
    """A call of the CUDA driver failed."""


def _check(result: tuple[Any, ...]) -> Any:
    status, *values = result
    if int(status) != 0:
        raise DeviceMemoryError(f"CUDA driver: {status.name}")
    return values[0] if len(values) == 1 else tuple(values)


class DeviceMemory:
    """A mapping of shared device memory. `create` makes memory, `attach` maps what another process made.

    The calling thread must have a CUDA context of the device, for example torch's after `torch.cuda.init()` and one
    allocation. `size` is in bytes, a multiple of the allocation granularity (2 MiB).
    """

    def __init__(self, handle: Any, size: int, device: int) -> None:
        self.size = size
        self._handle = handle
        self.address = int(_check(driver.cuMemAddressReserve(size, 0, 0, 0)))
        _check(driver.cuMemMap(self.address, size, 0, handle, 0))
        access = driver.CUmemAccessDesc()
        access.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        access.location.id = device
        access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        _check(driver.cuMemSetAccess(self.address, size, [access], 1))

    @classmethod
    def create(cls, size: int, device: int) -> tuple[DeviceMemory, int]:
        """Memory of at least `size` bytes, with a descriptor to pass on. Raises DeviceMemoryError."""
        properties = driver.CUmemAllocationProp()
        properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = device
        kind = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        properties.requestedHandleTypes = kind
        flag = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        granularity = int(_check(driver.cuMemGetAllocationGranularity(properties, flag)))
        size = -(-size // granularity) * granularity
        handle = _check(driver.cuMemCreate(size, properties, 0))
        fd = int(_check(driver.cuMemExportToShareableHandle(handle, kind, 0)))
        return cls(handle, size, device), fd

    @classmethod
    def attach(cls, fd: int, size: int, device: int) -> DeviceMemory:
        """The memory behind a descriptor that `create` gave in another process. Raises DeviceMemoryError."""
        kind = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        return cls(_check(driver.cuMemImportFromShareableHandle(fd, kind)), size, device)

    def tensor(self) -> Any:
        """All of it as a uint8 tensor on the device, without a copy. The memory must outlive the tensor."""
        import torch

        return torch.as_tensor(self, device="cuda")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """How torch takes memory that is not its own."""
        return {"shape": (self.size,), "typestr": "|u1", "data": (self.address, False), "version": 3}

    def close(self) -> None:
        """Unmap it. The memory is freed when every process has."""
        _check(driver.cuMemUnmap(self.address, self.size))
        _check(driver.cuMemAddressFree(self.address, self.size))
        _check(driver.cuMemRelease(self._handle))
