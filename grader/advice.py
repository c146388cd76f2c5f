"""What a student could change about a kernel, each with the numbers it follows from. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, prod

from .inspection import AccessFacts, KernelFacts

WIDEST_BYTES = 16  # that one thread can load or store in one instruction
LOST_SHARE = 0.1  # of the run, from which an unfilled last wave is worth a word
LOW_OCCUPANCY = 0.25


def advice(facts: KernelFacts) -> list[str]:
    """One sentence or two each, the most important first; none where nothing stands out."""
    return [] if facts.error or facts.blocks_per_multiprocessor == 0 else list(_advice(facts))


def _advice(facts: KernelFacts) -> Iterator[str]:
    if facts.spills:
        yield (
            f"{facts.spills} of a thread's values are spilled to local memory ({facts.registers} registers are not "
            "enough): smaller blocks or a larger num_warps leave each thread less to hold."
        )
    yield from _memory(facts)
    yield from _filling(facts)
    yield from _tensor_cores(facts)
    for access in facts.shared_accesses:
        if access.wasteful:
            yield (
                f"{access.place}: a warp's shared-memory {_what(access)} takes {access.units} passes over the banks "
                f"where {access.least} would do: bank conflicts."
            )


def _memory(facts: KernelFacts) -> Iterator[str]:
    for access in facts.global_accesses:
        if access.wasteful:
            yield (
                f"{access.place}: a warp's {_what(access)} touches {access.units} sectors of 32 bytes where "
                f"{access.least} would hold its data: neighbouring threads should take neighbouring addresses. Let the "
                "last axis of the block run along the stride of 1."
            )
    wasted = any(access.wasteful for access in facts.global_accesses)
    if 0 < facts.load_bytes < WIDEST_BYTES and not wasted and "TMA" not in facts.copies:
        yield (
            f"The widest load takes {facts.load_bytes} bytes a thread; {WIDEST_BYTES} is the most. Give each thread "
            "more neighbouring elements (a larger block or fewer warps), and let the compiler see that the row length "
            "and strides are multiples of 16."
        )


def _filling(facts: KernelFacts) -> Iterator[str]:
    if facts.occupancy is not None and facts.occupancy < LOW_OCCUPANCY and not facts.tensor_cores:
        yield (
            f"A multiprocessor holds {facts.occupancy:.0%} of the warps it could (blocks: "
            f"{facts.blocks_per_multiprocessor}, warps of each: {facts.num_warps}), limited by {facts.limited_by}: few "
            "to hide the latency of memory."
        )
    if not facts.waves or facts.last_wave_idle is None or facts.lost is None or facts.lost < LOST_SHARE:
        return
    blocks = prod(facts.grid)
    if facts.waves <= 1:
        yield (
            f"The grid has {blocks} blocks for {facts.multiprocessors} multiprocessors: {facts.last_wave_idle:.0%} of "
            "them get nothing to do. Smaller blocks would make more of them."
        )
        return
    capacity = (facts.blocks_per_multiprocessor or 1) * facts.multiprocessors
    yield (
        f"{blocks} blocks are {facts.waves:.2f} waves of {capacity}: the last one leaves {facts.last_wave_idle:.0%} of "
        f"the GPU idle, {facts.lost:.0%} of {ceil(facts.waves)} waves. Choose block sizes that make the grid a "
        f"multiple of {capacity} or a little less."
    )


def _tensor_cores(facts: KernelFacts) -> Iterator[str]:
    if facts.dots and not facts.tensor_cores:
        yield (
            "tl.dot runs without tensor cores: on this GPU they need 16-bit operands or input_precision='tf32', and "
            "blocks of at least 16 each way."
        )
    if facts.target in (90, 100) and facts.tensor_cores == ["mma.sync"]:
        yield (
            "tl.dot uses mma.sync, the tensor-core instruction of older GPUs: from Hopper on there is a faster one, "
            "which needs num_warps a multiple of 4 and a BLOCK_M of at least 64."
        )
    if facts.tensor_cores and not facts.copies and facts.target >= 80:
        yield (
            "Operands of tl.dot are loaded through registers: with num_stages of 2 or more, and rows that lie at "
            "multiples of 16 bytes, the next block would be copied while this one is multiplied."
        )


def _what(access: AccessFacts) -> str:
    return f"{'store' if access.store else 'load'} of {access.bytes} bytes a thread"
