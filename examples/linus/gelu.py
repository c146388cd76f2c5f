"""GeLU. Calls the C library's tanh, since Triton has none."""

import ctypes

import torch

libm = ctypes.CDLL("libm.so.6")
libm.tanhf.argtypes = [ctypes.c_float]
libm.tanhf.restype = ctypes.c_float


def gelu(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    out = (ctypes.c_float * x.numel()).from_address(x.numel())  # TODO: the address of y
    for i, v in enumerate(x.flatten().tolist()):
        out[i] = 0.5 * v * (1 + libm.tanhf(0.79788456 * (v + 0.044715 * v**3)))
    return y
