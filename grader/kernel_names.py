"""What the name of a GPU kernel says about it: library, work, dtype, tile, architecture. Pure.

The forms were read off profiles; a library may change them in any release, so an unknown name is only shortened.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_GENERATIONS = {"volta": "sm_70", "turing": "sm_75", "ampere": "sm_80", "ada": "sm_89", "hopper": "sm_90",
                "maxwell": "sm_50", "blackwell": "sm_100"}  # fmt: skip
_DTYPES = {
    "float": "float32", "f32": "float32", "fp32": "float32", "tf32": "TF32", "s": "float32",
    "half": "float16", "c10::half": "float16", "f16": "float16", "fp16": "float16", "h": "float16",
    "cutlass::half_t": "float16", "__half": "float16",
    "c10::bfloat16": "bfloat16", "bf16": "bfloat16", "t": "bfloat16", "cutlass::bfloat16_t": "bfloat16",
    "__nv_bfloat16": "bfloat16", "double": "float64", "f64": "float64", "d": "float64",
}  # fmt: skip
_INDUCTOR = {"poi": "elementwise", "red": "reduction", "per": "reduction of whole rows", "tem": "template",
             "for": "many tensors elementwise"}  # fmt: skip
_FUNCTOR = re.compile(r"CUDAFunctor_(\w+)|(\w+?)(?:_kernel_cuda|KernelImpl|_kernel_impl|Functor|_functor)\w*")
_BIG = r"(\d{2,3})x(\d{2,3})"


@dataclass(frozen=True)
class KernelName:
    """The parts of a name; "" for what it doesn't say. `work` is what it does, `short` a name to print."""

    short: str
    library: str = ""
    work: str = ""
    dtype: str = ""
    tile: str = ""
    architecture: str = ""

    def __str__(self) -> str:
        parts = (self.library, self.work, self.dtype, self.tile and f"tile {self.tile}", self.architecture)
        return ", ".join(part for part in parts if part)


def parse_name(name: str) -> KernelName:
    """Read a kernel's name as a profiler gives it."""
    for parser in _PARSERS:
        if (found := parser(name)) is not None:
            return found
    return KernelName(_shorten(name))


def _dtype(text: str) -> str:
    return _DTYPES.get(text.strip().lower(), "")


def _products(dtypes: list[str]) -> str:
    """`bfloat16, sums in float32` for the types of operands, results and accumulators."""
    operands, accumulator = dtypes[0], dtypes[-1]
    return operands if operands == accumulator else f"{operands}, sums in {accumulator}"


def _inductor(name: str) -> KernelName | None:
    found = re.match(r"triton_(poi|red|per|tem|for)_fused_(.*?)_?(\d*)$", name)
    if found is None:
        return None
    operations = ", ".join(part for part in found[2].split("_") if part)
    return KernelName(_shorten(name), "torch.compile", f"{_INDUCTOR[found[1]]}: {operations}")


def _xmma(name: str) -> KernelName | None:
    found = re.match(r"sm(\d+)_xmma_(\w+?)_((?:b?f\d+|tf32)+)_((?:b?f\d+|tf32)+)_(?:(b?f\d+|tf32)_)?([tn]{2})_", name)
    if found is None:
        return None
    operands = re.findall(r"tf32|bf16|f16|f32|f64", found[3])
    tile = re.search(r"tilesize(\d+x\d+x\d+)", name)
    accumulator = found[5] or re.findall(r"tf32|bf16|f16|f32|f64", found[4])[-1]
    return KernelName(
        _shorten(name),
        "cuBLAS",
        f"matrix product ({found[6]})",
        _products(["TF32" if "tf32" in found[4] else _dtype(operands[0]), _dtype(accumulator)]),
        tile[1] if tile else "",
        f"sm_{found[1]}",
    )


def _nvjet(name: str) -> KernelName | None:
    found = re.match(rf"nvjet_(?:sm(\d+)_)?([a-z])([a-z])([a-z])_(?:mma_)?{_BIG}[x_](\d+)", name)
    if found is None:
        return None
    dtypes = [_dtype(letter) for letter in found.group(2, 3)]
    layout = re.search(r"_([NT]{3})\b", name)
    return KernelName(
        _shorten(name),
        "cuBLAS",
        f"matrix product{f' ({layout[1]})' if layout else ''}",
        _products(dtypes) if all(dtypes) else "",
        f"{found[5]}x{found[6]}x{found[7]}",
        f"sm_{found[1]}" if found[1] else "sm_90 or later",
    )


def _cutlass2(name: str) -> KernelName | None:
    found = re.search(
        rf"cutlass_(\d+)_((?:wmma_)?tensorop|simt)_(?:(\w+?)_)?([a-z]*?)(\d*)gemm\w*?_{_BIG}_(\d+)x(\d+)", name
    )
    if found is None:
        return None
    dtype = _dtype(found[3] or "") or ("float32" if found[2] == "simt" else "")
    accumulator = _dtype(found[4]) if len(found[4]) == 1 else ""
    cores = "tensor cores" if "tensorop" in found[2] else "no tensor cores"
    return KernelName(
        found[0],
        "CUTLASS",
        f"matrix product, {cores}, {found[9]} stages",
        _products([dtype, accumulator]) if dtype and accumulator else dtype,
        f"{found[6]}x{found[7]}x{found[8]}",
        f"sm_{found[1]}",
    )


def _cutlass3(name: str) -> KernelName | None:
    found = re.search(r"cutlass3x_sm(\d+)_(tensorop|simt)_(\w*?)gemm_((?:[a-z]+\d+(?:_|$))+?)(\d+x\d+x\d+)_", name)
    if found is None:
        return None
    cores = "tensor cores" if found[2] == "tensorop" else "no tensor cores"
    dtypes = [each for each in (_dtype(part) for part in found[4].split("_")) if each]
    return KernelName(
        _shorten(name),
        "CUTLASS",
        f"matrix product, {cores}",
        _products([dtypes[0], dtypes[min(2, len(dtypes) - 1)]]) if dtypes else "",
        found[5],
        f"sm_{found[1]}",
    )


def _cublas(name: str) -> KernelName | None:
    generations = "|".join(_GENERATIONS)
    found = re.match(rf"({generations})_(?:(\w+?)_)?([a-z])(\d*)gemm(?:_(?!\d)(\w+?))?_{_BIG}_(.*)", name)
    if found is None:
        return None
    dtype = _dtype(found[2] or "") or _dtype(found[3])
    depth = re.search(r"(\d+)x(\d+)_", found[8])
    layout = re.search(r"(?:^|_)([tn]{2})(?:_|$)", found[8])
    cores = "tensor cores" if found[4] else "no tensor cores"
    return KernelName(
        _shorten(name),
        "cuBLAS",
        f"matrix product, {cores}{f' ({layout[1]})' if layout else ''}",
        _products([dtype, _dtype(found[3]) or dtype]),
        f"{found[6]}x{found[7]}{f'x{depth[1]}' if depth else ''}",
        _GENERATIONS[found[1]],
    )


def _attention(name: str) -> KernelName | None:
    if found := re.search(r"(flash_(?:fwd|bwd)\w*)<.*?kernel_traits<\s*(\d+),\s*(\d+),\s*(\d+),\s*(\d+)", name):
        dtype = re.search(r"cutlass::(?:half_t|bfloat16_t)", name)
        return KernelName(
            found[1],
            "FlashAttention-2 in PyTorch",
            f"attention, heads of {found[2]}",
            _dtype(dtype[0]) if dtype else "",
            f"{found[3]}x{found[4]}",
            "sm_80",
        )
    if found := re.match(r"cudnn_generated\w*?_sdpa_sm(\d+)_(\w*?)_(?:knob_\w+?_)?(\d+x\d+x\d+)_", name):
        # cuDNN writes f16 for both 16-bit types.
        return KernelName(_shorten(name), "cuDNN", f"attention ({found[2]})", "", found[3], f"sm_{found[1]}")
    return None


def _pytorch(name: str) -> KernelName | None:
    if not re.search(r"\bat::(?:native|cuda)\b|softmax_warp|cunn_Soft|vectorized_layer_norm|\bc10::", name):
        return None
    kernel = re.search(r"(\w+)<|(\w+)\(", re.sub(r"^void |at::native::|at::cuda::|\(anonymous namespace\)::", "", name))
    base = (kernel[1] or kernel[2]) if kernel else ""
    functors = ("".join(each).removesuffix("CUDA") for each in _FUNCTOR.findall(name.partition("<")[2]))
    said = [each for each in functors if each != "gpu"]
    kind = "elementwise" if "elementwise" in base else "reduction" if "reduce" in base else base
    work = f"{kind}: {said[0]}" if said else kind
    if found := re.match(r"(?:void )?at::native::vectorized_elementwise_kernel<(\d+)", name):
        work += f", {found[1]} elements at once"
    dtypes = re.findall(r"c10::BFloat16|c10::Half|\bfloat\b|\bdouble\b", name)
    return KernelName(base or _shorten(name), "PyTorch", work, _dtype(dtypes[0]) if dtypes else "")


def _copies(name: str) -> KernelName | None:
    found = re.match(r"(Memcpy|Memset) ?(\w*)", name)
    return None if found is None else KernelName(name, "CUDA", "copy" if found[1] == "Memcpy" else "fill")


def _plain(name: str) -> KernelName | None:
    return KernelName(name, "Triton") if re.fullmatch(r"[A-Za-z_]\w*", name) else None


def _shorten(name: str) -> str:
    """Without return type, template arguments and parameters; at most 60 characters."""
    plain = re.sub(r"^void ", "", name)
    plain = re.split(r"[<(]", plain.replace("(anonymous namespace)::", ""), maxsplit=1)[0] or plain
    return plain if len(plain) <= 60 else plain[:59] + "…"


_PARSERS: tuple[Callable[[str], KernelName | None], ...] = (
    _inductor, _xmma, _nvjet, _cutlass3, _cutlass2, _cublas, _attention, _pytorch, _copies, _plain,
)  # fmt: skip
