"""Translates the asm statements of CUDA C++ to C++ calls of a model of each PTX instruction (ptx.hpp)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass


class UnknownText(Exception):
    """Raised for CUDA C++ or PTX that the model does not support; the message names it."""


_CONTAINERS = {"h": "uint16_t", "r": "uint32_t", "f": "uint32_t", "l": "uint64_t", "d": "uint64_t"}
"""C++ type with the bits of a register, by constraint letter (Inline PTX Assembly, "Constraints")."""

_REGISTERS = {"pred": "bool", "b16": "uint16_t", "b32": "uint32_t", "b64": "uint64_t"}


@dataclass(frozen=True, slots=True)
class AsmOperand:
    """One operand of an asm statement: whether it is written, whether it is read, its constraint letter and its C++
    expression.
    """

    written: bool
    read: bool
    letter: str
    expression: str


def translate(line: int, template: str, operands: Sequence[AsmOperand]) -> str:
    """A block of C++ with the effect of an asm statement: its `template`, in which %0, %1 ... stand for `operands`.
    `line`: the statement's line, for messages. Raises UnknownText for an instruction without a model.
    """
    before, after, names = [], [], []
    for number, operand in enumerate(operands):
        name = f"ptx_{number}"
        if operand.letter == "n":
            before.append(f"constexpr long long {name} = {operand.expression};")
        elif operand.letter in _CONTAINERS:
            container = _CONTAINERS[operand.letter]
            value = f"ptx::take<{container}>({operand.expression})" if operand.read else f"{container}(-1)"
            before.append(f"{container} {name} = {value};")
        else:
            raise UnknownText(f'line {line}: constraint "{operand.letter}" of an asm statement')
        if operand.written:
            after.append(f"ptx::give({operand.expression}, {name});")
        names.append(name)
    return " ".join(["{", *before, *_instructions(line, template, names), *after, "}"])


def _instructions(line: int, template: str, names: Sequence[str]) -> list[str]:
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", template, flags=re.S)
    text = text.replace("%%", "%special_").replace("%=", "0")
    text = re.sub(r"%(\d+)", lambda m: names[int(m[1])], text)
    code: list[str] = []
    at = 0
    while at < len(text):
        if text[at].isspace() or text[at] == ";":
            at += 1
        elif text[at] in "{}":
            code.append(text[at])
            at += 1
        elif label := re.compile(r"([A-Za-z_$][\w$]*)\s*:(?!:)").match(text, at):
            code.append(f"label_{line}_{label[1]}:;")
            at = label.end()
        else:
            end = text.find(";", at)
            end = len(text) if end < 0 else end
            code.append(_statement(line, text[at:end].strip()))
            at = end
    return code


def _statement(line: int, text: str) -> str:
    if declaration := re.fullmatch(r"\.reg\s+\.(\w+)\s+(.*)", text, flags=re.S):
        kind = re.sub(r"^[usf](?=\d)", "b", declaration[1])
        if kind not in _REGISTERS:
            raise UnknownText(f"line {line}: registers of type .{declaration[1]}")
        return f"{_REGISTERS[kind]} {', '.join(_declared(declaration[2]))};"
    condition = ""
    if predicate := re.match(r"@(!?)\s*(\S+)\s+", text):
        condition = f"if ({predicate[1]}{_register(predicate[2])}) "
        text = text[predicate.end() :]
    opcode, _, rest = text.partition(" ")
    opcode, rest = opcode.strip(), rest.strip()
    for pattern, emit in _INSTRUCTIONS:
        if match := re.fullmatch(pattern, opcode):
            return condition + "{ " + emit(_Use(line, opcode, match, _split(rest))) + " }"
    raise UnknownText(f"line {line}: the instruction {opcode} has no model")


def _declared(names: str) -> list[str]:
    found: list[str] = []
    for name in names.split(","):
        if several := re.fullmatch(r"\s*([\w$%]+)<(\d+)>\s*", name):
            found += [_register(f"{several[1]}{i}") for i in range(int(several[2]))]
        else:
            found.append(_register(name.strip()))
    return found


def _split(text: str) -> list[str]:
    """The operands of a list, split at commas outside of brackets."""
    parts, depth, begin = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "{[") - (character in "}]")
        if character == "," and depth == 0:
            parts.append(text[begin:at].strip())
            begin = at + 1
    last = text[begin:].strip()
    return [*parts, last] if last else parts


def _register(text: str) -> str:
    """The C++ expression of a PTX operand: a register, a number or an operand of the asm statement. Raises UnknownText
    for any other text.
    """
    if text.startswith("ptx_"):
        return text
    if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)[uU]?", text):
        return text
    if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", text):
        return f"0x{text[2:]}u"
    if text == "%special_laneid":
        return "host::lane()"
    if re.fullmatch(r"[%\w$]+", text) and not text.startswith("%special"):
        return "reg_" + text.replace("%", "p_").replace("$", "d_")
    raise UnknownText(f"the PTX operand {text}")


@dataclass(frozen=True, slots=True)
class _Use:
    """One instruction in an asm statement: its opcode, the match of the opcode's pattern, and its operands as
    written.
    """

    line: int
    opcode: str
    match: re.Match[str]
    operands: list[str]

    @property
    def place(self) -> str:
        """The first arguments of each model's C++ function: the line and the instruction's name."""
        return f'{self.line}, "{self.opcode}"'

    def value(self, index: int) -> str:
        return _register(self.operands[index])

    def values(self, index: int) -> str:
        """The registers of operand `index`, a vector (or a single register), as the items of a braced C++ list."""
        return ", ".join(map(_register, _split(self.operands[index].strip("{} "))))

    def places(self, index: int) -> str:
        """The addresses of the registers of the vector operand `index`, as items of a braced C++ list, for results."""
        return ", ".join("&" + _register(r) for r in _split(self.operands[index].strip("{} ")))

    def address(self, index: int) -> str:
        base, _, offset = self.operands[index].strip("[] ").partition("+")
        return f"{_register(base.strip())} + {offset.strip() or 0}"


def _cp_async(use: _Use) -> str:
    size = use.value(2)
    source_size = use.value(3) if len(use.operands) > 3 else size
    cg = "true" if use.match[1] == "cg" else "false"
    return f"ptx::cp_async({use.place}, {cg}, {use.address(0)}, {use.address(1)}, {size}, {source_size});"


def _bulk_tensor(use: _Use) -> str:
    tensor, coordinates = _split(use.operands[1].strip("[] "))
    at = _split(coordinates.strip("{} "))
    if len(at) != int(use.match[1]):
        raise UnknownText(f"line {use.line}: {use.opcode} with {coordinates}")
    listed = ", ".join(map(_register, at))
    return (
        f"ptx::cp_async_bulk_tensor({use.place}, {use.address(0)}, {_register(tensor)}, "
        f"{{{listed}}}, {use.address(2)});"
    )


def _expect(use: _Use) -> str:
    if use.operands[0] != "_":
        raise UnknownText(f"line {use.line}: {use.opcode} with a state")
    return f"ptx::mbarrier_arrive({use.place}, {use.address(1)}, {use.value(2) if use.match[1] else 0});"


def _try_wait(use: _Use) -> str:
    return f"{use.value(0)} = ptx::mbarrier_try_wait({use.place}, {use.address(1)}, {use.value(2)});"


def _matrix(use: _Use) -> str:
    count, transposed = int(use.match[2]), "true" if use.match[3] else "false"
    registers, address = (0, 1) if use.match[1] == "ld" else (1, 0)
    if len(_split(use.operands[registers].strip("{} "))) != count:
        raise UnknownText(f"line {use.line}: {use.opcode} with {use.operands[registers]}")
    listed = use.places(registers) if use.match[1] == "ld" else use.values(registers)
    return f"ptx::{use.match[1]}matrix({use.place}, {transposed}, {use.address(address)}, {{{listed}}});"


def _mma(use: _Use) -> str:
    k, d, a, b, c = use.match.groups()
    types = ", ".join(f"ptx::{t.upper()}" for t in (a, b, c, d))
    fragments = ", ".join("{" + v + "}" for v in (use.places(0), use.values(1), use.values(2), use.values(3)))
    return f"ptx::mma({use.place}, {k}, {types}, {fragments});"


def _wgmma(use: _Use) -> str:
    columns, depth, *types = use.match.groups()
    listed = ", ".join(f"ptx::{t.upper()}" for t in types)
    # Integers have no signs to choose, and halves alone lie in two orders.
    count = {"16": 8, "8": 6, "32": 4}[depth]
    if len(use.operands) != count:
        raise UnknownText(f"line {use.line}: {use.opcode} with {len(use.operands)} operands")
    others = ", ".join(use.value(i) for i in range(1, count))
    return f"ptx::wgmma({use.place}, {columns}, {depth}, {listed}, {{{use.places(0)}}}, {others});"


def _load_store(use: _Use) -> str:
    direction, space, _, bits = use.match.groups()
    registers, at = (0, 1) if direction == "ld" else (1, 0)
    bits = max(16, int(bits))
    address = use.address(at)
    if space == "shared":
        address = f"host::shared_pointer({use.place}, {address}, 1)"
    else:
        address = f"reinterpret_cast<void*>({address})"
    model = "load" if direction == "ld" else "store"
    listed = use.places(registers) if direction == "ld" else use.values(registers)
    return f"ptx::{model}<uint{bits}_t>({use.place}, {address}, {{{listed}}});"


def _move(use: _Use) -> str:
    bits = int(use.match[1])
    to, source = use.operands
    if to.startswith("{"):
        parts = _split(to.strip("{} "))
        half = bits // len(parts)
        return " ".join(
            f"{_register(p)} = uint{half}_t({_register(source)} >> {i * half});" for i, p in enumerate(parts)
        )
    if source.startswith("{"):
        parts = _split(source.strip("{} "))
        half = bits // len(parts)
        terms = [f"uint{bits}_t(uint{half}_t({_register(p)})) << {i * half}" for i, p in enumerate(parts)]
        return f"{_register(to)} = {' | '.join(terms)};"
    return f"{_register(to)} = {_register(source)};"


def _set_predicate(use: _Use) -> str:
    operator = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}[use.match[1]]
    kind = f"{'' if use.match[2] == 's' else 'u'}int{use.match[3]}_t"
    return f"{use.value(0)} = {kind}({use.value(1)}) {operator} {kind}({use.value(2)});"


def _assign(expression: str) -> Callable[[_Use], str]:
    """A function that returns the C++ statement for an instruction that assigns `expression` to its first operand; {1},
    {2} ... in the expression are its source operands.
    """

    def emit(use: _Use) -> str:
        return f"{use.value(0)} = {expression.format(*[use.value(i) for i in range(len(use.operands))])};"

    return emit


def _call(expression: str) -> Callable[[_Use], str]:
    def emit(use: _Use) -> str:
        return expression.format(*[use.value(i) for i in range(len(use.operands))], line=use.line)

    return emit


def _nan_extreme(use: _Use) -> str:
    a, b = (f"ptx::f32({use.value(i)})" for i in (1, 2))
    chosen = f"{a} {'>' if use.match[1] == 'max' else '<'} {b} ? {a} : {b}"
    return f'{use.value(0)} = ptx::bits({a} != {a} || {b} != {b} ? __builtin_nanf("") : {chosen});'


_SHARED = r"shared(?:::cta)?"
_INSTRUCTIONS: list[tuple[str, Callable[[_Use], str]]] = [
    (rf"cp\.async\.(ca|cg)\.{_SHARED}\.global(?:\.L2::(?:64|128|256)B)?", _cp_async),
    (r"cp\.async\.commit_group", _call("ptx::cp_async_commit_group({line});")),
    (r"cp\.async\.wait_group", _call("ptx::cp_async_wait_group({line}, {0});")),
    (r"cp\.async\.wait_all", _call("ptx::cp_async_wait_all({line});")),
    (rf"(ld|st)matrix\.sync\.aligned\.m8n8\.x([124])(\.trans)?\.{_SHARED}\.b16", _matrix),
    (rf"(ld|st)matrix\.sync\.aligned\.x([124])(\.trans)?\.m8n8\.{_SHARED}\.b16", _matrix),
    (r"mma\.sync\.aligned\.m16n8k(4|8)\.row\.col\.(f32)\.(tf32)\.(tf32)\.(f32)", _mma),
    (r"mma\.sync\.aligned\.m16n8k(8|16)\.row\.col\.(f32)\.(bf16)\.(bf16)\.(f32)", _mma),
    (r"mma\.sync\.aligned\.m16n8k(8|16)\.row\.col\.(f16|f32)\.(f16)\.(f16)\.(f16|f32)", _mma),
    (r"mma\.sync\.aligned\.m16n8k(16|32)\.row\.col\.(s32)\.([su]8)\.([su]8)\.(s32)", _mma),
    (r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k(16)\.(f32)\.(b?f16)\.(\4)", _wgmma),
    (r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k(8)\.(f32)\.(tf32)\.(tf32)", _wgmma),
    (r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k(32)\.(s32)\.([su]8)\.([su]8)", _wgmma),
    (r"wgmma\.fence\.sync\.aligned", _call("ptx::wgmma_fence({line});")),
    (r"wgmma\.commit_group\.sync\.aligned", _call("ptx::wgmma_commit_group({line});")),
    (r"wgmma\.wait_group\.sync\.aligned", _call("ptx::wgmma_wait_group({line}, {0});")),
    (rf"fence\.proxy\.async(?:\.{_SHARED})?", _call("ptx::fence_proxy_async({line});")),
    # Kernels run one after the other here.
    (r"griddepcontrol\.wait", lambda _: ""),
    (
        r"cp\.async\.bulk\.tensor\.([1-5])d\.shared::cluster\.global\.tile\.mbarrier::complete_tx::bytes",
        _bulk_tensor,
    ),
    (
        rf"mbarrier\.init\.{_SHARED}\.b64",
        lambda use: f"ptx::mbarrier_init({use.place}, {use.address(0)}, {use.value(1)});",
    ),
    (rf"mbarrier\.arrive(\.expect_tx)?\.{_SHARED}\.b64", _expect),
    (rf"mbarrier\.try_wait\.parity\.{_SHARED}\.b64", _try_wait),
    (r"cvt\.rna\.tf32\.f32", _assign("ptx::to_tf32({1})")),
    (r"cvt\.rn\.f16\.f32", _assign("ptx::to_f16(ptx::f32({1}))")),
    (r"cvt\.f32\.f16", _assign("ptx::bits(float(ptx::from_f16({1})))")),
    (r"cvt\.rn\.bf16\.f32", _assign("ptx::to_bf16(ptx::f32({1}))")),
    (r"cvt\.f32\.bf16", _assign("ptx::bits(float(ptx::from_bf16({1})))")),
    (
        r"cvt\.rn\.f16x2\.f32",
        _assign("uint32_t(ptx::to_f16(ptx::f32({1}))) << 16 | ptx::to_f16(ptx::f32({2}))"),
    ),
    (
        r"cvt\.rn\.bf16x2\.f32",
        _assign("uint32_t(ptx::to_bf16(ptx::f32({1}))) << 16 | ptx::to_bf16(ptx::f32({2}))"),
    ),
    (r"(max|min)\.NaN\.f32", _nan_extreme),
    (r"dp4a\.s32\.s32", _assign("ptx::dp4a(true, true, {1}, {2}, {3})")),
    (r"dp4a\.u32\.u32", _assign("ptx::dp4a(false, false, {1}, {2}, {3})")),
    (r"dp4a\.u32\.s32", _assign("ptx::dp4a(false, true, {1}, {2}, {3})")),
    (r"dp4a\.s32\.u32", _assign("ptx::dp4a(true, false, {1}, {2}, {3})")),
    (
        rf"(ld|st)(?:\.volatile)?\.(global|{_SHARED})(?:\.nc|\.ca|\.cg|\.cs|\.L1::\w+|\.L2::\w+)*(\.v[24])?\.[busf](8|16|32|64)",
        _load_store,
    ),
    (r"mov\.[busf](16|32|64)", _move),
    (r"setp\.(eq|ne|lt|le|gt|ge)\.([bsu])(16|32|64)", _set_predicate),
    (r"bra(?:\.uni)?", lambda use: f"goto label_{use.line}_{use.operands[0]};"),
]
"""Pairs: pattern of a PTX opcode, function that returns C++ for the instruction. The first matching pattern counts."""
