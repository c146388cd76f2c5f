"""Exercise: attention without the score matrix in memory, with its gradients."""

import math

import torch
import triton
import triton.language as tl


def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    bias: torch.Tensor | None = None,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Return o = P·v, P the softmax over keys of S = q·kᵀ / √dim + bias; differentiable in q, k, v and bias.

    q: (batch, heads, seq_q, dim), k and v: (batch, heads, seq_k, dim), any strides, all float32, float16 or bfloat16;
    they must not be changed. dim is 16 to 256, not always a power of two. seq_q and seq_k are any, and may differ.
    causal: query i sees the keys j ≤ i + seq_k − seq_q, so that the last query sees the last key.
    bias: (batch or 1, heads or 1, seq_q, seq_k) of the same dtype; entries may be −∞.
    A query that sees no key has o = 0 and lse = −∞.
    Result: o like q, a new tensor. With return_lse the tuple (o, lse), lse[…, i] = ln Σⱼ exp(S[…, i, j]) in float32,
    (batch, heads, seq_q).
    Memory: linear in seq_q and seq_k. Go over the keys in blocks, with a running maximum and sum (FlashAttention-2).
    Gradients, for the check `gradient`: from `backward` of a torch.autograd.Function, in kernels of yours. With g the
    gradient of o and D = Σ g·o over dim, minus the gradient of lse where that is asked for:
    dv = Pᵀ·g, dS = P ∘ (g·vᵀ − D), dq = dS·k / √dim, dk = dSᵀ·q / √dim; dbias is dS, summed where bias was broadcast.
    """
    # TODO: write kernels with @triton.jit above, launch them here, and return the result.
    raise NotImplementedError("flash_attention is not written yet: student/flash_attention.py")
