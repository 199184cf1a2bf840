"""The C header that declares compiled kernels."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...ir.expr import Buffer
from ...ir.types import DType
from .machine import CpuTarget
from .memory import ALIGNMENT, buffer_bytes
from .module import Module

_C_TYPES = {
    DType.INT8: "int8_t",
    DType.UINT8: "uint8_t",
    DType.INT16: "int16_t",
    DType.UINT16: "uint16_t",
    DType.INT32: "int32_t",
    DType.UINT32: "uint32_t",
    DType.INT64: "int64_t",
    DType.UINT64: "uint64_t",
    DType.FLOAT32: "float",
    DType.FLOAT64: "double",
    # C before C23 has no names for these types: they are passed as bits.
    DType.FLOAT16: "uint16_t",
    DType.BFLOAT16: "uint16_t",
    DType.BOOL: "uint8_t",
    **{dtype: "uint8_t" for dtype in DType if dtype.is_code},
}
_KEYWORDS = """
alignas alignof and asm auto bool break case catch char class const constexpr continue default delete do double else
enum explicit export extern false float for friend goto if inline int long mutable namespace new not nullptr operator or
private protected public register restrict return short signed sizeof static struct switch template this throw true try
typedef typename union unsigned using virtual void volatile while xor
"""
_OWN_PARAMETERS = ("WORKSPACE", "SCRATCH", "LAUNCH", "POOL")

_TYPES = """\
#ifndef VDLA_LAUNCH
#define VDLA_LAUNCH
/* One chunk of a parallel loop; `worker` is at least 0 and below the number of workers, and no two chunks run on one
   worker at the same time. */
typedef void vdla_task(void *closure, int64_t chunk, int64_t worker);
/* Runs task(closure, chunk, worker) for every chunk from 0 to chunks - 1, in any order and on any workers, and returns
   when all are done. */
typedef void vdla_launch(void *pool, vdla_task *task, void *closure, int64_t chunks);
#endif
"""


def is_c_name(name: str) -> bool:
    """Whether `name` is legal for a function in C and C++, and not reserved."""
    plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) is not None
    return plain and "__" not in name and name not in _KEYWORDS.split() and name != "main"


def header_text(name: str, modules: Sequence[Module], target: CpuTarget) -> str:
    """The text of the C header `name`.h, which declares the functions of `modules` for users of the object file."""
    guard = f"{name.upper()}_H"
    lines = [
        f"/* {name}: kernels for {target.triple}, {target.cpu}.",
        "",
        "   Made by vdla; change the model or the target, not this file. C99 or later, and C++.",
        "",
        "   The object needs no library and calls nothing but `launch`. Arrays are dense, last dimension fastest, and",
        f"   aligned as their elements; workspace and scratch are aligned to {ALIGNMENT} bytes.",
        "   Memory that a kernel writes must not overlap any other that it gets. A kernel keeps nothing between calls;",
        "   calls at the same time need memory of their own. */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <stdint.h>",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        _TYPES,
    ]
    for module in modules:
        lines += _kernel(module)
    lines += ["#ifdef __cplusplus", "}", "#endif", "", "#endif"]
    return "\n".join(lines) + "\n"


def _kernel(module: Module) -> list[str]:
    """The header's lines for one kernel: macros with the arrays' sizes, the declaration of the kernel's function, and a
    wrapper that has an argument for each array.
    """
    name, upper = module.function, module.function.upper()
    places = array_names(module)
    kinds = ["output" if p.name in module.outputs else "input" for p in module.parameters]
    arrays = list(zip(module.parameters, places, kinds, strict=True))
    order = ", ".join([f"{place} ({kind})" for _, place, kind in arrays])
    lines = [
        f"#define {upper}_WORKSPACE_BYTES {module.workspace_bytes}",
        f"#define {upper}_SCRATCH_BYTES {module.scratch_bytes} /* for each worker */",
    ]
    for p, size in zip(module.parameters, size_macros(module), strict=True):
        lines.append(f"#define {size} {buffer_bytes(p)} /* {_shape(p)} */")
    lines += [
        "",
        f"/* `buffers`: {order}. Where `launch` is null, all is done on the calling thread, as worker 0. */",
        f"void {name}(void *const *buffers, void *workspace, void *scratch, vdla_launch *launch, void *pool);",
        "",
        f"static inline void {name}_arrays(",
    ]
    for p, place, kind in arrays:
        constant = "const " if kind == "input" else ""
        lines.append(f"    {constant}{_C_TYPES[p.dtype]} *{place}, /* {kind} {_shape(p)} */")
    casts = ", ".join([f"(void *){place}" for place in places]) or "0"
    lines += [
        "    void *workspace, void *scratch, vdla_launch *launch, void *pool)",
        "{",
        f"    void *const buffers[] = {{{casts}}};",
        f"    {name}(buffers, workspace, scratch, launch, pool);",
        "}",
        "",
    ]
    return lines


def array_names(module: Module) -> list[str]:
    """Unique C names for the module's parameters, in order. They stay unique in upper case, as `size_macros` needs."""
    taken = {"BUFFERS", *_OWN_PARAMETERS}
    names: list[str] = []
    for i, p in enumerate(module.parameters):
        name = re.sub(r"[^A-Za-z0-9]+", "_", p.name).strip("_")
        if not is_c_name(name) or name.upper() in taken:
            name = f"array{i}_{name}"
        taken.add(name.upper())
        names.append(name)
    return names


def size_macros(module: Module) -> list[str]:
    """Names of the header's macros with the sizes in bytes of a module's parameters, in the parameters' order."""
    return [f"{module.function.upper()}_{place.upper()}_BYTES" for place in array_names(module)]


def _shape(p: Buffer) -> str:
    truth = ", 0 or 1" if p.dtype is DType.BOOL else ""
    return f"{p.dtype}[{', '.join(map(str, p.shape))}]{truth}"
