"""Entry points whose kernels a GPU takes."""

import functools

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.libdevice import tanh as device_tanh

SCALE: tl.constexpr = tl.constexpr(2.0)


@triton.jit
def scaled(x):
    return x * SCALE


@triton.jit
def softmax_kernel(x_ptr, y_ptr, stride, cols, BLOCK: tl.constexpr):
    """Softmax of one row.

    def is a word that a docstring may start a line with.
    """
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + offsets, mask=offsets < cols, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + row * stride + offsets, e / e.sum(0), mask=offsets < cols)


def softmax():
    x = torch.randn(4, 100)
    y = torch.empty_like(x)
    softmax_kernel[(4,)](x, y, x.stride(0), 100, BLOCK=128)
    return y


@triton.jit
def helper_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(y_ptr + offsets, scaled(x), mask=offsets < n)


def nested_helper_and_constexpr_global():
    x = torch.randn(1000)
    y = torch.empty_like(x)
    helper_kernel[lambda meta: (triton.cdiv(1000, meta["BLOCK"]), 2, 3)](x, y, 1000, BLOCK=256, num_warps=8)


@triton.autotune([triton.Config({"BLOCK": size}, num_warps=size // 64) for size in (128, 256)], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned_kernel(x_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(x_ptr + offsets, tl.load(x_ptr + offsets) + 1)
    else:
        tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n) + 1, mask=offsets < n)


def autotune_and_heuristics():
    tuned_kernel[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](torch.zeros(1000), 1000)


@triton.autotune([triton.Config({"BLOCK": 16}, num_warps=warps) for warps in (1, 2, 4)] * 4, key=["n"])
@triton.jit
def widely_tuned_kernel(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), n)


def more_configurations_than_are_compiled():
    widely_tuned_kernel[(1,)](torch.zeros(16), 16)


@triton.jit
def dot_kernel(a_ptr, b_ptr, c_ptr, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    tl.store(c_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at)).to(c_ptr.dtype.element_ty))


def bfloat16_dot():
    a = torch.randn(64, 64).bfloat16()
    dot_kernel[(1,)](a, a, torch.empty_like(a), SIZE=64)


def spilling():
    a = torch.zeros(64, 64).half()
    dot_kernel[(1,)](a, a, a, SIZE=64, num_warps=1, maxnreg=32)


def float8_dot():
    a = torch.randn(64, 64).to(torch.float8_e4m3fn)
    dot_kernel[(1,)](a, a, torch.empty(64, 64), SIZE=64)


@triton.jit
def libdevice_kernel(x_ptr, BLOCK: tl.constexpr):
    at = x_ptr + tl.arange(0, BLOCK)
    tl.store(at, libdevice.erf(tl.load(at)) + device_tanh(tl.load(at)))


def libdevice_functions():
    libdevice_kernel[(1,)](torch.zeros(128), BLOCK=128)


@triton.jit
def atomic_kernel(x_ptr, total_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_add(total_ptr, tl.sum(x, 0))
    tl.atomic_max(total_ptr + 1, tl.max(x, 0))


def atomics():
    atomic_kernel[(4,)](torch.zeros(512), torch.zeros(2), BLOCK=128)


@triton.jit
def descriptor_kernel(x_ptr, y_ptr, rows, cols, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [rows, cols], [cols, 1], [BLOCK, BLOCK])
    y = tl.make_tensor_descriptor(y_ptr, [rows, cols], [cols, 1], [BLOCK, BLOCK])
    y.store([0, 0], x.load([0, 0]) * 2)


def allocate(size, alignment, stream):
    return torch.empty(size, dtype=torch.int8)


def device_descriptors():
    triton.set_allocator(allocate)
    descriptor_kernel[(1,)](torch.zeros(64, 64), torch.zeros(64, 64), 64, 64, BLOCK=32)


def device_descriptors_without_an_allocator():
    descriptor_kernel[(1,)](torch.zeros(64, 64), torch.zeros(64, 64), 64, 64, BLOCK=32)


@triton.jit
def host_descriptor_kernel(x, BLOCK: tl.constexpr):
    x.store([0, 0], x.load([0, 0]) * 2)


def host_descriptors():
    from triton.tools.tensor_descriptor import TensorDescriptor

    host_descriptor_kernel[(1,)](TensorDescriptor(torch.zeros(64, 64), [64, 64], [64, 1], [32, 32]), BLOCK=32)


class Doubled(torch.autograd.Function):
    kernel = helper_kernel

    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        Doubled.kernel[(1,)](x, y, x.numel(), BLOCK=64)
        return y

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        out = torch.empty_like(grad)
        KERNELS["softmax"][(1,)](grad, out, 1, grad.numel(), BLOCK=64)
        return out


KERNELS = {"softmax": softmax_kernel}


def forward_and_backward():
    Doubled.apply(torch.randn(64, requires_grad=True)).sum().backward()


def make_scaler(factor):
    @triton.jit
    def closure_kernel(x_ptr, BLOCK: tl.constexpr):
        at = x_ptr + tl.arange(0, BLOCK)
        tl.store(at, scaled(tl.load(at)))

    return functools.partial(lambda kernel, x: kernel[(1,)](x, BLOCK=64), closure_kernel)


def jit_functions_in_closures_and_made_in_the_call():
    PREPARED(torch.zeros(64))
    make_scaler(2)(torch.zeros(64))


PREPARED = make_scaler(3)


def empty_grid():
    helper_kernel[(0,)](torch.zeros(16), torch.zeros(16), 16, BLOCK=16)


def host_code_that_fails_on_what_was_not_computed():
    softmax()
    raise ValueError("the output is not what it should be")


def strides_and_alignment_specialise():
    x = torch.randn(4, 128)
    softmax_kernel[(4,)](x, torch.empty_like(x), 128, 128, BLOCK=128)


def persistent_grid():
    device = triton.runtime.driver.active.get_current_device()
    count = triton.runtime.driver.active.utils.get_device_properties(device)["multiprocessor_count"]
    helper_kernel[(count,)](torch.zeros(16), torch.zeros(16), 16, BLOCK=16)


def no_kernel():
    return torch.zeros(3)
