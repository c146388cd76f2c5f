"""Tells whether PyTorch did an exercise's work, from the operators that a call ran. Pure.

Allocating, viewing, copying and casting are not work: kernels need them around them. Any other operator is, where it
touches as many elements as a good part of the case's largest tensor; small ones, such as adding up a few partial sums,
are not.
"""

from __future__ import annotations

from reference.exercise import Case

from .reply import CallReply

MOVES_NOTHING = frozenset(
    {
        # allocation without filling
        "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_",
        "set_", "scalar_tensor",
        # views
        "view", "view_as", "reshape", "_reshape_alias", "_unsafe_view", "as_strided", "expand", "expand_as",
        "permute", "transpose", "t", "squeeze", "unsqueeze", "select", "slice", "narrow", "unfold", "flatten",
        "unflatten", "split", "split_with_sizes", "chunk", "unbind", "detach", "alias", "lift_fresh", "diagonal",
        "movedim", "swapaxes",
        # a word to the allocator about a second stream
        "record_stream",
    }
)  # fmt: skip
NOT_WORK = MOVES_NOTHING.union(
    {
        # filling
        "zeros", "zeros_like", "new_zeros", "zero_", "ones", "ones_like", "new_ones", "full", "full_like",
        "new_full", "fill", "fill_", "arange",
        # copies and casts
        "contiguous", "clone", "copy_", "_to_copy", "to",
        # questions whose answer is no result: asserts, torch.autograd.set_detect_anomaly
        "isnan", "isinf", "isfinite", "any", "all", "is_nonzero", "_local_scalar_dense",
    }
)  # fmt: skip
# Autograd itself adds up the gradients of what is used twice.
ACCUMULATION = frozenset({"add", "add_"})
# Below this, a case is too small to tell helping from working.
LEAST_ELEMENTS = 1024
SHARE = 0.5
HINT = "The exercise asks for this work to be done in your Triton kernel."


def work_left_to_torch(case: Case, reply: CallReply, *, backward: bool = False) -> str | None:
    """A sentence naming the operator that did the work, or None."""
    allowed = NOT_WORK | ACCUMULATION if backward else NOT_WORK
    worked = [operator for operator in reply.operators if operator.name not in allowed]
    if not worked:
        return None
    largest = worked[0]
    if not reply.record.launches:
        return f"no Triton kernel was launched; PyTorch's {largest.name} did the work"
    most = max(spec.numel for spec in case.tensors)
    if largest.elements >= max(LEAST_ELEMENTS, SHARE * most):
        return f"PyTorch's {largest.name} worked on {largest.elements} elements beside the kernel"
    return None


def work_of_no_kernel(case: Case, reply: CallReply) -> str | None:
    """A sentence on why no kernel can have made a result that is right, or None."""
    # A GPU's record has no word on it: launches there may go past what counts them.
    if reply.record.inputs_loaded is None or not any(spec.numel for spec in case.tensors):
        return None
    if not reply.record.launches:
        return "the result is right, but no Triton kernel was launched"
    copied = any(operator.name not in MOVES_NOTHING for operator in reply.operators)
    if not reply.record.inputs_loaded and not copied:
        return "the result is right, but no kernel read an input, or a copy of one"
    return None
