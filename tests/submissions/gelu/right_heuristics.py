"""GeLU whose block size and number of warps follow from the input's size."""

import torch
import triton
import triton.language as tl


@triton.heuristics(
    {
        "BLOCK": lambda args: min(2048, triton.next_power_of_2(args["n"])),
        "num_warps": lambda args: 8 if args["n"] >= 2048 else 4,
    }
)
@triton.jit
def gelu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    y = x * tl.sigmoid(1.5957691216 * (x + 0.044715 * x * x * x))
    tl.store(y_ptr + i, y, mask=i < n)


def gelu(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    gelu_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
    return y
