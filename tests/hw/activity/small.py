"""A cell library of three cells, and a small design of them: a two-bit counter that addresses a memory."""

from pathlib import Path

from vdla.hw.activity.liberty import Library, read_library
from vdla.hw.synthesis.cells.design import CellDesign, MappedModule
from vdla.hw.synthesis.cells.liberty import read_liberty
from vdla.hw.synthesis.cells.mapping import Instance, MappedText
from vdla.hw.synthesis.cells.memories import Macro

NO_CELLS = MappedText(
    ports={}, boxes=(), cells={}, macros={}, loads={}, drives={}, next_net=0, entry=""
)  # fmt: skip
_TABLE = """(power_grid) {{ index_1 ("0.0, 1.0"); index_2 ("0.1, 1.1"); values ("{0}, {1}", "{2}, {3}"); }}"""


def _table(name: str, *values: float) -> str:
    return name + _TABLE.format(*values)


def _line(name: str, value: float) -> str:
    return f'{name}(line) {{ values ("{value}, {value}"); }}'


def _both(value: float) -> str:
    return _table("rise_power", *[value] * 4) + _table("fall_power", *[value] * 4)


def _arc(pin: str, sense: str, kind: str = "") -> str:
    tables = "".join(
        f'{what}(grid) {{ values ("0.1, 0.2", "1.1, 1.2"); }}'
        for what in ("rise_transition", "fall_transition", "cell_rise", "cell_fall")
    )
    return f'timing() {{ related_pin : "{pin}"; timing_sense : {sense}; {kind} {tables} }}'


LIBERTY = f"""
/* a comment */
library(small) {{
  time_unit : "1ns"; voltage_unit : "1V"; leakage_power_unit : "1nW"; capacitive_load_unit (1,pf);
  delay_model : table_lookup; nom_process : 1; nom_voltage : 2.0; nom_temperature : 25;
  operating_conditions (typical) {{ process : 1; voltage : 2.0; temperature : 25; }}
  default_operating_conditions : typical;
  lu_table_template(grid) {{
    variable_1 : total_output_net_capacitance; variable_2 : input_net_transition;
    index_1 ("0.0, 1.0"); index_2 ("0.1, 1.1");
  }}
  power_lut_template(power_grid) {{
    variable_1 : total_output_net_capacitance; variable_2 : input_transition_time;
    index_1 ("0.0, 1.0"); index_2 ("0.1, 1.1");
  }}
  power_lut_template(line) {{ variable_1 : input_transition_time; index_1 ("0.1, 1.1"); }}
  slew_upper_threshold_pct_rise : 80; slew_lower_threshold_pct_rise : 20; input_threshold_pct_rise : 50;
  slew_upper_threshold_pct_fall : 80; slew_lower_threshold_pct_fall : 20; input_threshold_pct_fall : 50;
  output_threshold_pct_rise : 50; output_threshold_pct_fall : 50;
  cell (INV) {{ area : 1; cell_leakage_power : 0.5;
    pin(A) {{ direction : input; capacitance : 0.1; }}
    pin(Y) {{ direction : output; function : "A'"; {_arc("A", "negative_unate")}
      internal_power() {{ related_pin : "A"; {_table("rise_power", 1, 2, 3, 4)} {_table("fall_power", 3, 4, 5, 6)} }}
    }}
  }}
  cell (BUF) {{ area : 2;
    pin(A) {{ direction : input; capacitance : 0.1; }}
    pin(Y) {{ direction : output; function : "A"; {_arc("A", "positive_unate")} }}
  }}
  cell (XOR) {{ area : 3; cell_leakage_power : 1;
    pin(A) {{ direction : input; capacitance : 0.2; }}
    pin(B) {{ direction : input; capacitance : 0.3; }}
    pin(Y) {{ direction : output; function : "(A B') + (A' B)"; {_arc("A", "non_unate")} {_arc("B", "non_unate")}
      internal_power() {{ related_pin : "A"; {_both(1)} }}
      internal_power() {{ related_pin : "B"; {_both(2)} }}
    }}
  }}
  cell (FF) {{ area : 4; cell_leakage_power : 2;
    ff (IQ, IQN) {{ next_state : "D"; clocked_on : "CK"; }}
    pin(CK) {{ direction : input; capacitance : 0.05; clock : true;
      internal_power() {{ {_line("rise_power", 0.5)} {_line("fall_power", 0.25)} }}
    }}
    pin(D) {{ direction : input; capacitance : 0.02;
      internal_power() {{ {_line("rise_power", 0.125)} {_line("fall_power", 0.125)} }}
      timing() {{ related_pin : "CK"; timing_type : setup_rising;
        rise_constraint(scalar) {{ values ("0.1"); }} fall_constraint(scalar) {{ values ("0.1"); }}
      }}
    }}
    pin(Q) {{ direction : output; function : "IQ"; {_arc("CK", "non_unate", "timing_type : rising_edge;")}
      internal_power() {{ related_pin : "CK"; {_both(1)} }}
    }}
  }}
}}
"""

MACRO = Macro(words=4, width=1, reads=1, writes=1, address_bits=2, clocked=True)


def library(directory: Path) -> Library:
    """The cell library, written to a Liberty file in `directory` and read back."""
    path = directory / "small.lib"
    path.write_text(LIBERTY, encoding="utf-8")
    return read_library(path)


def design(directory: Path) -> CellDesign:
    """The small design. The counter bit `low` changes in every cycle, `high` in every second one; the memory word at
    (high, low) is read, then written with `data`.

    The exclusive or of the two bits is in a module of its own. Outputs: the two bits, and the word read.
    """
    library(directory)
    clk, data, low, high, not_low, other, word = range(2, 9)
    instances = (
        Instance(name="u0", kind="INV", pins={"A": [low], "Y": [not_low]}),
        Instance(name="u1", kind="FF", pins={"CK": [clk], "D": [not_low], "Q": [low]}),
        Instance(name="inner", kind="vdla.counters", pins={"one": [low], "two": [high], "out": [other]}),
        Instance(name="u2", kind="FF", pins={"CK": [clk], "D": [other], "Q": [high]}),
        Instance(
            name="words",
            kind=MACRO.name,
            pins={
                "RD_CLK": [clk], "RD_EN": ["1"], "RD_ADDR": [low, high], "RD_DATA": [word],
                "WR_CLK": [clk], "WR_EN": ["1"], "WR_ADDR": [low, high], "WR_DATA": [data],
            },
        ),
    )  # fmt: skip
    top = MappedModule(
        name="vdla", ports={"clk": [clk], "data": [data], "bits": [low, high], "word": [word]},
        inward=frozenset({"clk", "data"}), boxes=instances, buffers=(), text=NO_CELLS, loads={}, drives={},
    )  # fmt: skip
    inner = MappedModule(
        name="vdla.counters", ports={"one": [2], "two": [3], "out": [4]}, inward=frozenset({"one", "two"}),
        boxes=(Instance(name="u0", kind="XOR", pins={"A": [2], "B": [3], "Y": [4]}),), buffers=(),
        text=NO_CELLS, loads={}, drives={},
    )  # fmt: skip
    return CellDesign(
        top="vdla", library=read_liberty(directory / "small.lib"), modules={"vdla.counters": inner, "vdla": top},
        macros={MACRO.name: MACRO}, counts={"vdla": 1, "vdla.counters": 1},
    )  # fmt: skip
