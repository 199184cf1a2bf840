"""Generation of Verilog for components and for the whole accelerator."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from amaranth._toolchain.yosys import YosysError
from amaranth.back import rtlil, verilog
from amaranth.hdl import Fragment, MemoryInstance, Value
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from vdla.isa.config import Config
from vdla.util.errors import UserError
from vdla.util.long_compilation import collector_paused

from .shared_modules import SharedModules, flat_members
from .top import Accelerator

TOP = "vdla"
"""Name of the accelerator's top module in Verilog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port of the Verilog module, other than clock and reset; `direction` is "input" or "output"."""

    name: str
    direction: str
    width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VerilogModule:
    """Verilog `text` and the `ports` of its top module, clock and reset left out."""

    text: str
    ports: tuple[Port, ...]


def component_module(
    component: wiring.Component, name: str, report: Callable[[str], None] = lambda text: None
) -> VerilogModule:
    """Verilog of `component` as module `name`; ports are named by their path, joined by single underscores.

    Amaranth would join paths by two underscores, which tools mangle. The clock is `clk`, the reset `rst` (high,
    synchronous). `report` is called with a line of text for each step.
    """
    with collector_paused():
        return _component_module(component, name, report)


def _component_module(component: wiring.Component, name: str, report: Callable[[str], None]) -> VerilogModule:
    flat = _flat_ports(component)
    shared = SharedModules(_rtlil)
    report("elaborating the RTL")
    top = _rtlil(component, name, shared)
    # A single run of Yosys does all steps.
    report("writing the Verilog (Yosys)")
    try:
        converted = verilog._convert_rtlil_text(shared.joined(top), strip_internal_attrs=True)
    except YosysError as error:
        # If Yosys is missing, the message of Amaranth suffices; if Yosys fails, its log has the reason.
        if "acceptable" not in str(error):
            raise
        raise UserError('Verilog needs Yosys, which was not found: pip install "vdla[rtl]"') from None
    text = _tidy(MODULE.sub(lambda found: _with_zeros(found[0]), converted))
    ports = tuple(
        Port(
            name=port,
            direction="input" if direction is PortDirection.Input else "output",
            width=len(value),
        )
        for port, (value, direction) in flat.items()
    )
    return VerilogModule(text=text, ports=ports)


def _rtlil(component: wiring.Component, name: str, shared: SharedModules) -> str:
    """Converts a component to RTLIL by Amaranth, as module `name`. Two parts are left out: initial values of memories
    that are all zeros, and the modules that many components share; the text of these modules goes to `shared`.

    Amaranth writes every bit of an initial value separately, and Yosys a line for each word, which takes minutes for
    large scratchpads. `_with_zeros` writes a loop instead.
    """
    fragment = Fragment.get(component, shared)
    _forget_zeros(fragment)
    text, _ = rtlil.convert_fragment(fragment, ports=_flat_ports(component), name=name, emit_src=False)
    return _NO_INITIAL_VALUES.sub("", text)


def _forget_zeros(fragment: Fragment) -> None:
    if isinstance(fragment, MemoryInstance) and not any(fragment._data._init._raw):
        fragment._data._init._raw = []
    for inner, _, _ in fragment.subfragments:
        _forget_zeros(inner)


MODULE = re.compile(r"^module .*?^endmodule$", re.MULTILINE | re.DOTALL)
"""Pattern of a module in the generated Verilog."""
_NO_INITIAL_VALUES = re.compile(
    r"^  cell \$meminit_v2 \S+\n(?:    (?!connect \\DATA)[^\n]*\n)*"
    r"    connect \\DATA (?:\{\s*\}|0')\s*\n(?:    [^\n]*\n)*  end\n",
    re.MULTILINE,
)
_MEMORY = re.compile(r"^  reg (?:\[(\d+):0\] )?(\\\S+ |\w+) ?\[(\d+):0\];\n", re.MULTILINE)
_INITIALIZED = re.compile(r"^    (\\\S+ |\w+) ?\[0\] = ", re.MULTILINE)
ZERO_LOOP = re.compile(r"^  initial begin : zeros_\d+\n.*?^  end\n", re.MULTILINE | re.DOTALL)
"""Pattern of the loop that `_with_zeros` adds for a memory."""


def _with_zeros(module: str) -> str:
    """Adds to the Verilog text `module`, for each memory without initial values, a loop that sets its words to zero."""
    initialized = set(_INITIALIZED.findall(module))
    loops = 0

    def zeroed(match: re.Match[str]) -> str:
        nonlocal loops
        high, name, last = int(match[1] or 0), match[2], int(match[3])
        if name in initialized:
            return match[0]
        index = f"i[{last.bit_length() - 1}:0]" if last else "0"
        loops += 1
        return (
            f"{match[0]}  initial begin : zeros_{loops}\n    integer i;\n"
            f"    for (i = 0; i <= {last}; i = i + 1)\n      {name}[{index}] = {high + 1}'h0;\n  end\n"
        )

    return _MEMORY.sub(zeroed, module)


def _tidy(text: str) -> str:
    """`text`, rewritten without change of meaning so that Verilator's lint and a user's Yosys accept it.

    The logical negation of a vector becomes a reduction, and a case without default gets an empty default. Signals of
    zero bits are removed: Yosys declares them as [-1:0], which in Verilog are two bits. Attributes with initial values
    (`init`) are removed as well. A register has its own initial value (`reg x = 0`); Amaranth's attribute repeats the
    value at another name of the same signal. If Yosys removes a constant register before it joins the names
    (`proc; opt`), only one name keeps its value, and Yosys stops with conflicting initial values.
    """
    lines: list[str] = []
    empty: list[str] = []
    for line in text.splitlines():
        if line.startswith("module "):
            empty.clear()
        elif (found := _EMPTY.match(line)) is not None:
            empty.append(found[1])
            continue
        elif line.startswith("  (* init = "):
            continue
        for name in empty:
            if name in line:
                line = _without(line, name)
        if line.startswith("  assign "):
            line = line.replace(" = ! ", " = ~| ", 1)
        elif line.strip() == "endcase" and not _has_default(lines, len(line) - len(line.lstrip())):
            lines.append(line.replace("endcase", "  default: ;"))
        lines.append(line)
    return "\n".join([*lines, ""])


_EMPTY = re.compile(r"  (?:wire|reg) \[-1:0\] (\\\S+ |\w+);")


def _without(line: str, name: str) -> str:
    """`line` with the zero-bit signal `name` removed from concatenations of two or more parts; raises ValueError if
    `line` also uses the signal elsewhere.
    """
    exact = rf"(?<![\w$.\\]){re.escape(name)}(?![\w$])"
    line = re.sub(rf"(?<=[{{,]) {exact}\s*,", "", line)
    line = re.sub(rf",\s*{exact}\s*}}", " }", line)
    if re.search(exact, line):
        raise ValueError(f"the signal {name}, which has 0 bits, is used in: {line}")
    return line


def _has_default(lines: list[str], indent: int) -> bool:
    """Whether the case statement that ends after `lines`, and that is indented by `indent` spaces, has a default."""
    for line in reversed(lines):
        stripped = line.lstrip()
        depth = len(line) - len(stripped)
        if depth == indent and stripped.startswith("case"):
            return False
        if depth == indent + 2 and stripped.startswith("default:"):
            return True
    raise ValueError("an endcase without its case")


def component_verilog(component: wiring.Component, name: str) -> str:
    """Verilog text of `component` as module `name`; ports are named by their path, joined by single underscores."""
    return component_module(component, name).text


def _flat_ports(component: wiring.Component) -> dict[str, tuple[Value, PortDirection]]:
    return {
        name: (signal, PortDirection.Input if flow is In else PortDirection.Output)
        for name, flow, signal in flat_members(component.signature, component)
    }


def generate_module(
    config: Config, *, trace_ports: bool = False, report: Callable[[str], None] = lambda text: None
) -> VerilogModule:
    """Verilog of the whole accelerator, top module `vdla`; `trace_ports` adds the trace ports that the harness reads.

    `report` is called with a line of text for each step: large machines take some seconds.
    """
    return component_module(Accelerator(config=config, trace_ports=trace_ports), TOP, report)


def generate_verilog(config: Config, *, trace_ports: bool = False) -> str:
    """Verilog text of the whole accelerator, top module `vdla`; `trace_ports` adds the trace ports that the harness
    reads.
    """
    return generate_module(config, trace_ports=trace_ports).text
