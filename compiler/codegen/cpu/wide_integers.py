"""Functions for int64 arithmetic that LLVM calls by fixed names on 32-bit processors without instructions for this
arithmetic.

An object that calls the functions also contains them, so that it needs no library. Names and meaning are as in the GCC
low-level runtime library ("Routines for integer arithmetic", "Routines for floating point emulation").
"""

from __future__ import annotations

from collections.abc import Iterable

from .module import Module

_DIVIDE = """
; Quotient and rest of absolute values, a bit of the quotient at a time from its highest on.
define internal { i64, i64 } @vdla.divide(i64 %a, i64 %b) #0 {
entry:
  %fits = icmp uge i64 %a, %b
  %some = icmp ne i64 %b, 0
  %go = and i1 %fits, %some
  br i1 %go, label %start, label %none
start:
  %zeros.a = call i64 @llvm.ctlz.i64(i64 %a, i1 false)
  %zeros.b = call i64 @llvm.ctlz.i64(i64 %b, i1 false)
  %shift = sub i64 %zeros.b, %zeros.a
  %first = shl i64 %b, %shift
  br label %bit
bit:
  %left = phi i64 [ %shift, %start ], [ %less, %bit ]
  %part = phi i64 [ %first, %start ], [ %half, %bit ]
  %rest = phi i64 [ %a, %start ], [ %after, %bit ]
  %quotient = phi i64 [ 0, %start ], [ %next, %bit ]
  %takes = icmp uge i64 %rest, %part
  %difference = sub i64 %rest, %part
  %after = select i1 %takes, i64 %difference, i64 %rest
  %double = shl i64 %quotient, 1
  %one = zext i1 %takes to i64
  %next = or i64 %double, %one
  %half = lshr i64 %part, 1
  %less = sub i64 %left, 1
  %last = icmp eq i64 %left, 0
  br i1 %last, label %done, label %bit
done:
  %q = insertvalue { i64, i64 } poison, i64 %next, 0
  %qr = insertvalue { i64, i64 } %q, i64 %after, 1
  ret { i64, i64 } %qr
none:
  %r = insertvalue { i64, i64 } { i64 0, i64 poison }, i64 %a, 1
  ret { i64, i64 } %r
}
declare i64 @llvm.ctlz.i64(i64, i1)
declare i64 @llvm.abs.i64(i64, i1)
"""

_TEXTS = {
    "__divdi3": (
        _DIVIDE,
        """
define internal i64 @__divdi3(i64 %a, i64 %b) #0 {
  %size.a = call i64 @llvm.abs.i64(i64 %a, i1 false)
  %size.b = call i64 @llvm.abs.i64(i64 %b, i1 false)
  %pair = call { i64, i64 } @vdla.divide(i64 %size.a, i64 %size.b)
  %size = extractvalue { i64, i64 } %pair, 0
  %signs = xor i64 %a, %b
  %negative = icmp slt i64 %signs, 0
  %minus = sub i64 0, %size
  %result = select i1 %negative, i64 %minus, i64 %size
  ret i64 %result
}
""",
    ),
    "__moddi3": (
        _DIVIDE,
        """
define internal i64 @__moddi3(i64 %a, i64 %b) #0 {
  %size.a = call i64 @llvm.abs.i64(i64 %a, i1 false)
  %size.b = call i64 @llvm.abs.i64(i64 %b, i1 false)
  %pair = call { i64, i64 } @vdla.divide(i64 %size.a, i64 %size.b)
  %size = extractvalue { i64, i64 } %pair, 1
  %negative = icmp slt i64 %a, 0
  %minus = sub i64 0, %size
  %result = select i1 %negative, i64 %minus, i64 %size
  ret i64 %result
}
""",
    ),
    "__fixsfdi": (
        """
; Towards zero; any value where the result does not fit.
define internal i64 @__fixsfdi(float %x) #0 {
  %bits = bitcast float %x to i32
  %shifted = lshr i32 %bits, 23
  %biased = and i32 %shifted, 255
  %exponent = sub i32 %biased, 150
  %fraction = and i32 %bits, 8388607
  %whole = or i32 %fraction, 8388608
  %mantissa = zext i32 %whole to i64
  %up = call i32 @llvm.smax.i32(i32 %exponent, i32 0)
  %up.most = call i32 @llvm.smin.i32(i32 %up, i32 40)
  %up.wide = zext i32 %up.most to i64
  %negated = sub i32 0, %exponent
  %down = call i32 @llvm.smax.i32(i32 %negated, i32 0)
  %down.most = call i32 @llvm.smin.i32(i32 %down, i32 63)
  %down.wide = zext i32 %down.most to i64
  %large = shl i64 %mantissa, %up.wide
  %size = lshr i64 %large, %down.wide
  %negative = icmp slt i32 %bits, 0
  %minus = sub i64 0, %size
  %result = select i1 %negative, i64 %minus, i64 %size
  ret i64 %result
}
declare i32 @llvm.smax.i32(i32, i32)
declare i32 @llvm.smin.i32(i32, i32)
""",
    ),
    "__floatdisf": (
        """
; Rounded to nearest, ties to even: 24 bits from the highest one on, which int32 holds and float32 too.
define internal float @__floatdisf(i64 %x) #0 {
  %size = call i64 @llvm.abs.i64(i64 %x, i1 false)
  %leading = call i64 @llvm.ctlz.i64(i64 %size, i1 false)
  %zeros = call i64 @llvm.umin.i64(i64 %leading, i64 63)
  %aligned = shl i64 %size, %zeros
  %top = lshr i64 %aligned, 40
  %rest = and i64 %aligned, 1099511627775
  %odd = and i64 %top, 1
  %sticky = or i64 %rest, %odd
  %above = icmp ugt i64 %sticky, 549755813888
  %one = zext i1 %above to i64
  %rounded = add i64 %top, %one
  %narrow = trunc i64 %rounded to i32
  %mantissa = sitofp i32 %narrow to float
  %less = sub i64 167, %zeros
  %biased = trunc i64 %less to i32
  %scale.bits = shl i32 %biased, 23
  %scale = bitcast i32 %scale.bits to float
  %value = fmul float %mantissa, %scale
  %minus = fneg float %value
  %negative = icmp slt i64 %x, 0
  %result = select i1 %negative, float %minus, float %value
  ret float %result
}
declare i64 @llvm.ctlz.i64(i64, i1)
declare i64 @llvm.abs.i64(i64, i1)
declare i64 @llvm.umin.i64(i64, i64)
""",
    ),
}
FUNCTIONS = frozenset(_TEXTS)


def wide_integers(names: Iterable[str]) -> Module:
    """A module with the functions `names`, which must be in `FUNCTIONS`; they are visible only inside the object that
    contains them.
    """
    chosen = sorted(names)
    parts = list(dict.fromkeys([part for name in chosen for part in _TEXTS[name]]))
    kept = ", ".join([f"ptr @{name}" for name in chosen])
    text = "".join(parts)
    # Declare each function once.
    declarations = sorted({line for line in text.splitlines() if line.startswith("declare")})
    lines = [line for line in text.splitlines() if not line.startswith("declare")]
    lines += [
        *declarations,
        # Calls of these functions appear only when LLVM generates machine code.
        f'@llvm.compiler.used = appending global [{len(chosen)} x ptr] [{kept}], section "llvm.metadata"',
        'attributes #0 = { nounwind noinline "no-builtins" }',
    ]
    return Module(text="\n".join(lines) + "\n", function="", workspace_bytes=0, scratch_bytes=0)
