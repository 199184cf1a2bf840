r"""Splits generated Verilog into modules, each with a canonical text that does not depend on the rest of the design.

Amaranth and Yosys number names ("\port$2841$0"), and the numbers of one module depend on all others. In the canonical
text of a module, numbers count from 0 in order of appearance, the module is called `m`, and inner modules are black
boxes `child_0`, `child_1`, ... So equal modules of two designs have the same text, and results of tools are cached by
the hash of this text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Final

from ...verilog import MODULE, ZERO_LOOP
from ..netlist import NetlistError

OWN_NAME: Final = "m"
"""Name of a module in its canonical text."""

_HEADER = re.compile(r"module (\\\S+ |[\w$]+)\s*\((.*?)\);", re.DOTALL)
_PORT = re.compile(r"^  (input|output) (?:signed )?(?:\[(\d+):0\] )?(\\\S+ |\w+);$", re.MULTILINE)
_INSTANCE = re.compile(r"^  (\\\S+ |\w+) (\\\S+ |\w+) \($", re.MULTILINE)
_DECLARATION = re.compile(r"(?:^  \(\* [^\n]* \*\)\n)*^  (?:input|output|wire|reg) [^\n]*;\n", re.MULTILINE)
# Attributes with names of enumeration values.
_NOTES = re.compile(r"^  \(\* enum_[^\n]* \*\)\n", re.MULTILINE)
# A register without function that Yosys adds so that simulators enter a block once.
_TICK = re.compile(r"\\\$auto\$verilog_backend\.cc:\d+:dump_module\$\d+ ?")
_NUMBER = re.compile(r"\$(\d+)")
_KEYWORDS: Final = frozenset({"always", "initial", "case", "casez", "if", "module", "begin", "end", "for"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port of a module: its name without the backslash of escaped names, whether it is an input (`inward`), and its
    number of bits.
    """

    name: str
    inward: bool
    width: int


@dataclass(frozen=True, kw_only=True)
class Module:
    """One module: its Verilog `text`, `ports`, and `instances`, which maps the names of inner instances to modules, in
    the order of the text.
    """

    name: str
    text: str
    ports: tuple[Port, ...]
    instances: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class CanonicalModule:
    """A module's canonical text, preceded by stubs of its inner modules. `numbers[i]`: original number of `$i`.
    `children[i]`: name of the module that is called `child_i`.
    """

    text: str
    numbers: tuple[str, ...]
    children: tuple[str, ...]

    @cached_property
    def key(self) -> str:
        """SHA-256 of the canonical text, hexadecimal."""
        return sha256(self.text.encode()).hexdigest()

    def original(self, name: str) -> str:
        """Translates `name` from the canonical text to the generated Verilog: puts the original numbers in place of the
        canonical ones.
        """
        return _NUMBER.sub(lambda found: f"${self.numbers[int(found[1])]}", name)


def split_modules(verilog: str) -> dict[str, Module]:
    """The modules of the generated Verilog text `verilog` by name, without the backslash of escaped names, in the order
    of the text. Raises NetlistError if there is none, or if an instance's module is missing.
    """
    texts: dict[str, str] = {}
    for found in MODULE.finditer(verilog):
        header = _HEADER.match(found[0])
        if header is None:
            raise NetlistError(f"a module without a header: {found[0][:80]}")
        texts[_plain(header[1])] = found[0]
    if not texts:
        raise NetlistError("the Verilog has no module")
    return {name: _module(name, text, texts.keys()) for name, text in texts.items()}


def _module(name: str, text: str, known: Iterable[str]) -> Module:
    widths = {
        _plain(port): Port(name=_plain(port), inward=way == "input", width=int(high or 0) + 1)
        for way, high, port in _PORT.findall(text)
    }
    header = _HEADER.match(text)
    assert header is not None
    order = [_plain(item) for item in header[2].split(",") if item.strip()]
    instances: dict[str, str] = {}
    modules = frozenset(known)
    for kind, instance in _INSTANCE.findall(text):
        if kind in _KEYWORDS:
            continue
        if _plain(kind) not in modules:
            raise NetlistError(
                f"{name}: the Verilog lacks the module {_plain(kind)} of instance {_plain(instance)}"
            )
        instances[_plain(instance)] = _plain(kind)
    # Signals of zero bits are left out of the text, but not of the header.
    ports = tuple(widths[port] for port in order if port in widths)
    return Module(name=name, text=text, ports=ports, instances=instances)


def canonical(module: Module, modules: Mapping[str, Module]) -> CanonicalModule:
    """The canonical form of `module`: its Verilog with renumbered names, as in equal modules of other designs.
    `modules`: all modules of the design.
    """
    children = tuple(dict.fromkeys(module.instances.values()))
    renamed = {module.name: OWN_NAME} | {child: f"child_{i}" for i, child in enumerate(children)}

    def placed(match: re.Match[str]) -> str:
        return match[1] + renamed.get(_plain(match[2]), match[2])

    text = re.sub(
        r"^(module |  )(\\\S+ |\w+)(?= *\(| +(?:\\\S+ |\w+) \($)", placed, module.text, flags=re.MULTILINE
    )
    text = ZERO_LOOP.sub("", _TICK.sub("tick", _NOTES.sub("", text)))
    stubs = "\n".join(_stub(renamed[child], modules[child]) for child in children)
    numbers: dict[str, int] = {}

    def counted(match: re.Match[str]) -> str:
        return f"${numbers.setdefault(match[1], len(numbers))}"

    # Numbers are counted in the order of the statements: Yosys declares signals in the order of their names, which
    # contain the original numbers.
    declared = _DECLARATION.findall(text)
    head, end, body = _DECLARATION.sub("", text).partition(");\n")
    head, body = _NUMBER.sub(counted, head), _NUMBER.sub(counted, body)
    signals = sorted(_NUMBER.sub(counted, signal) for signal in declared)
    text = "".join([head, end, *signals, body])
    stubs = _NUMBER.sub(counted, stubs)
    return CanonicalModule(text="\n".join([stubs, text, ""]), numbers=tuple(numbers), children=children)


def whole(top: str, verilog: str) -> CanonicalModule:
    """The generated Verilog text `verilog` as one canonical text of all its modules, for flattening: only module `top`
    is renamed (to OWN_NAME); other names and the numbers in names stay unchanged.
    """
    modules = split_modules(verilog)

    def placed(match: re.Match[str]) -> str:
        return f"{match[1]}{OWN_NAME}" if _plain(match[2]) == top else match[0]

    texts = (re.sub(r"^(module )(\\\S+ |\w+)", placed, module.text) for module in modules.values())
    text = ZERO_LOOP.sub("", _TICK.sub("tick", _NOTES.sub("", "\n".join(texts))))
    most = max((int(number) for number in _NUMBER.findall(text)), default=-1)
    return CanonicalModule(text=text, numbers=tuple(map(str, range(most + 1))), children=())


def _stub(name: str, module: Module) -> str:
    ports = "\n".join(
        f"  {'input' if port.inward else 'output'} [{port.width - 1}:0] {written(port.name)};"
        for port in module.ports
    )
    listed = ", ".join(written(port.name) for port in module.ports)
    return f"(* blackbox *)\nmodule {name} ({listed});\n{ports}\nendmodule"


def instance_counts(top: str, modules: Mapping[str, Module]) -> dict[str, int]:
    """Number of instances in the whole design of each module that is used below the top module `top`, and of `top` (1);
    outer modules first.
    """
    counts = {top: 1}
    # The order has modules after the modules that instantiate them.
    order = _from_the_top(top, modules)
    for name in order:
        for child in modules[name].instances.values():
            counts[child] = counts.get(child, 0) + counts[name]
    return {name: counts[name] for name in order}


def _from_the_top(top: str, modules: Mapping[str, Module]) -> list[str]:
    done: dict[str, None] = {}

    def visit(name: str) -> None:
        if name not in done:
            for child in dict.fromkeys(modules[name].instances.values()):
                visit(child)
            done[name] = None

    visit(top)
    return list(reversed(done))


def bottom_up(top: str, modules: Mapping[str, Module]) -> list[str]:
    """`top` and the modules below it, each after the modules that it instantiates."""
    return list(reversed(_from_the_top(top, modules)))


def _plain(name: str) -> str:
    return name.strip().removeprefix("\\")


def written(name: str) -> str:
    """`name` in Verilog syntax: escaped if necessary."""
    if re.fullmatch(r"[A-Za-z_]\w*", name) and name not in _RESERVED:
        return name
    return f"\\{name} "


_WORDS: Final = """
always and assign begin buf case default deassign default design disable edge else end endcase endmodule
event for force forever fork function if initial inout input integer join large library liblist macromodule
medium module nand negedge nor not or output parameter posedge primitive pulldown pullup real realtime reg
release repeat scalared signed small specify strength string supply0 supply1 table task time tran tri
unsigned use vectored wait wand weak0 weak1 while wire wor xnor xor instance cell config endconfig generate
"""
_RESERVED: Final = frozenset(_WORDS.split())
