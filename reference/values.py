"""Recipes of input values, by name. Each makes a float64 tensor of a shape from a seeded generator.

A recipe exists because some wrong kernel passes all others; its docstring says which. Every recipe stays within
float16's range, so that one case means the same in each dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Generator, Tensor


def normal(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Standard normal: signs mixed, no symmetry that an index mistake could hide behind."""
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def shifted(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Normal around 3: a padded or dropped element changes every sum and mean."""
    return normal(shape, generator) + 3.0


def negative(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """All below -1: a row maximum or fill value of 0 is then wrong."""
    return -1.0 - 4.0 * normal(shape, generator).abs()


def large(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Magnitudes up to 3·10⁴, signs mixed: exponentials overflow unless the formula avoids it."""
    magnitude = 10.0 ** (4.4 * torch.rand(shape, generator=generator, dtype=torch.float64))
    return torch.where(normal(shape, generator) < 0, -magnitude, magnitude)


def wide(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Normal with standard deviation 30: exponentials reach their limits but products stay finite."""
    return 30.0 * normal(shape, generator)


def tiny(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Normal with standard deviation 10⁻³: absolute tolerances hide everything here."""
    return 1e-3 * normal(shape, generator)


def equal(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Each row constant, rows different: a padded element shows in sums and in the maximum."""
    if not shape:
        return normal(shape, generator)
    return normal((*shape[:-1], 1), generator).expand(shape).contiguous()


def spike(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Small values with one of 200 in each row: the maximum lies in one tile only, and a wrong rescale shows."""
    values = 0.1 * normal(shape, generator)
    if shape:
        where = torch.randint(shape[-1], (*shape[:-1], 1), generator=generator)
        values.scatter_(-1, where, 200.0)
    return values


def cancelling(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Large values of either sign whose row sums nearly vanish: sums in low precision lose all digits."""
    if not shape or shape[-1] < 2:
        return normal(shape, generator)
    half = shape[-1] // 2
    values = normal(shape, generator)
    values[..., :half] += 300.0
    values[..., half : 2 * half] -= 300.0
    order = torch.randperm(shape[-1], generator=generator)
    return values[..., order]


def some_minus_inf(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Normal with about a third of the entries −∞, never a whole row: masked scores as attention makes them."""
    values = normal(shape, generator)
    drop = torch.rand(shape, generator=generator) < 0.35
    if shape:
        keep = torch.randint(shape[-1], (*shape[:-1], 1), generator=generator)
        drop.scatter_(-1, keep, False)
    return values.masked_fill(drop, -torch.inf)


def masked_rows(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """As `some_minus_inf`, but every third row whole: what has no score at all must not become NaN."""
    values = some_minus_inf(shape, generator)
    if len(shape) >= 2:
        values[..., ::3, :] = -torch.inf
    return values


def masked_start(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Normal with the first half of each row −∞, as padding on the left: whole tiles without a finite score."""
    values = normal(shape, generator)
    if shape:
        values[..., : shape[-1] // 2] = -torch.inf
    return values


def sunken(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Each row constant, below −2·10⁴: any finite value that stands for −∞ is above it."""
    return equal(shape, generator).abs() * -10.0 - 2e4


RECIPES: Mapping[str, Callable[[tuple[int, ...], Generator], Tensor]] = {
    recipe.__name__: recipe
    for recipe in (
        normal,
        shifted,
        negative,
        large,
        wide,
        tiny,
        equal,
        spike,
        cancelling,
        some_minus_inf,
        masked_rows,
        masked_start,
        sunken,
    )
}


def make(recipe: str, shape: tuple[int, ...], seed: int, index: int) -> Tensor:
    """Values of `shape` in float64, the same for the same (recipe, shape, seed, index of the tensor in its case)."""
    if recipe not in RECIPES:
        raise ValueError(f"there is no value recipe {recipe!r}; known: {', '.join(RECIPES)}")
    generator = torch.Generator().manual_seed((seed * 1_000_003 + index) % 2**63)
    return RECIPES[recipe](shape, generator)
