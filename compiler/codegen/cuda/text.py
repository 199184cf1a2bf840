"""Code as text: expressions with their precedence, names, indented lines."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

PRIMARY, UNARY, PRODUCT, SUM, SHIFT, RELATION, EQUALITY, BIT_AND, AND, OR, CONDITIONAL = range(16, 5, -1)
"""Precedence of operators; operators that bind tighter have higher numbers."""


@dataclass(frozen=True, slots=True)
class Text:
    """A C expression: its text, and the precedence of its outermost operator."""

    text: str
    precedence: int = PRIMARY

    def within(self, precedence: int) -> str:
        """The text as an operand, in parentheses unless its precedence is at least `precedence`."""
        return self.text if self.precedence >= precedence else f"({self.text})"


def operation(op: str, precedence: int, a: Text, b: Text) -> Text:
    """The text `a op b` for a left-associative operator; `precedence`: the precedence of `op`."""
    return Text(f"{a.within(precedence)} {op} {b.within(precedence + 1)}", precedence)


def call(function: str, *arguments: Text) -> Text:
    """The text `function(arguments)`."""
    return Text(f"{function}({', '.join(a.text for a in arguments)})")


def conjunction(conditions: Sequence[Text]) -> str:
    """The text `a && b && ...` of conditions."""
    return " && ".join(condition.within(AND) for condition in conditions)


_KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class
    compl concept const consteval constexpr constinit const_cast continue decltype default delete do double
    dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template
    this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t
    while xor xor_eq threadIdx blockIdx blockDim gridDim warpSize dim3 uint3 int2 int4 uint2 uint4 float2 float4
    double2 size_t min max abs exp log tanh erf sqrt fmaf expf logf tanhf erff sqrtf fabsf shared tx ty tz
    sin cos tan asin acos atan sinh cosh asinh acosh atanh floor ceil rint trunc sinf cosf tanf asinf acosf atanf
    sinhf coshf asinhf acoshf atanhf floorf ceilf rintf truncf
"""
_RESERVED = frozenset(_KEYWORDS.split())
"""Keywords of C++, and names that CUDA C++ and generated texts define in every kernel; dialects add their `names`."""


class Names:
    """Unique C identifiers made from the IR's names. `taken`: reserved names, which `make` never returns."""

    def __init__(self, taken: frozenset[str] = frozenset()) -> None:
        self._taken = set(_RESERVED | taken)

    def make(self, wanted: str) -> str:
        """A unique, legal identifier close to `wanted`."""
        base = re.sub(r"[^A-Za-z0-9]+", "_", wanted).strip("_") or "v"
        # Leading underscores and double underscores are reserved for the implementation.
        base = f"v{base}" if base[0].isdigit() else base
        name, count = base, 1
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name

    def copy(self) -> Names:
        """A copy. Names that are in use in this object are also in use in the copy."""
        result = Names()
        result._taken = set(self._taken)
        return result


WIDTH = 118
"""Greatest length of a line of generated text."""
_BREAKS = re.compile(r"(?<=[,;]) (?! )|(?<= =) (?! )| (?=(?:[-+?:]|&&|\|\|) )")
"""Spaces at which a line may end: behind commas, semicolons and =, and before operators of sums and conditions."""
_TYPE = re.compile(r"<\w+,$")
"""Text before a space inside the arguments of a type such as `Vector<float, 4>`. No line ends at this space."""


def _rank(line: str, at: int) -> int:
    """A rank for ending a line at position `at`, where `_BREAKS` matches; a lower rank is better. The rank is 0 behind
    "=" or ";", 1 behind a comma or before an operator of a choice ("?" or ":"), 2 before an operator of a condition,
    and 3 before an operator of a sum.
    """
    if line[at - 1] in "=;":
        return 0
    following = line[at + 1]
    return 1 if line[at - 1] == "," or following in "?:" else 2 if following in "&|" else 3


def wrapped(line: str) -> list[str]:
    """Divides a line of a C-like language into lines of at most `WIDTH` characters, if possible. A line ends where the
    fewest brackets are open. If there are several such positions, it ends where `_rank` is lowest. Lines after the
    first one are indented by 8 more spaces. A comment behind code moves to lines before the code. Preprocessor lines
    and lines with string literals stay whole.
    """
    if len(line) <= WIDTH or line.lstrip().startswith("#") or '"' in line:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    code, comment, text = line.partition("// ")
    if comment and code.strip():
        return [f"{indent}// {text}", *wrapped(code.rstrip())]
    if comment:
        return textwrap.wrap(text, WIDTH, initial_indent=f"{indent}// ", subsequent_indent=f"{indent}//     ")
    lines: list[str] = []
    while len(line) > WIDTH:
        depth, depths = 0, list[int]()
        for character in line:
            depth += (character in "([") - (character in ")]")
            depths.append(depth)
        found = [m.start() for m in _BREAKS.finditer(line, len(indent) + 1, WIDTH + 1)]
        places = [at for at in found if not _TYPE.search(line, 0, at)]
        if not places:
            break
        # Not far to the left, so that few lines are short.
        late = [at for at in places if at > len(indent) + WIDTH // 4] or places
        # Of equally good positions, the last one is taken.
        at = min(late, key=lambda at: (depths[at], _rank(line, at), -at))
        lines.append(line[:at])
        if len(lines) == 1:
            indent += 8 * " "
        line = indent + line[at + 1 :]
    return [*lines, line]


class Source:
    """Lines under construction, indented by the blocks that are open."""

    def __init__(self, depth: int = 0) -> None:
        self.lines: list[str] = []
        self._depth = depth

    def line(self, text: str) -> None:
        """Appends one line."""
        self.lines.append("    " * self._depth + text if text else "")

    @contextmanager
    def block(self, head: str = "") -> Iterator[None]:
        """A context that writes `head {` and `}` around the lines written inside."""
        self.line(f"{head} {{" if head else "{")
        self._depth += 1
        yield
        self._depth -= 1
        self.line("}")
