"""Generates the RTL (Verilog) of a configuration."""

from __future__ import annotations

from pathlib import Path

from vdla.isa.config import Config, load_config
from vdla.util.errors import UserError


def verilog(config: Config | str | Path = "vta") -> str:
    """The whole accelerator as one Verilog text. Raises UserError without the extra `rtl`, ConfigError for a
    configuration that is not valid.
    """
    machine = config if isinstance(config, Config) else load_config(config)
    try:
        from vdla.hw.verilog import generate_verilog
    except ImportError as error:
        raise UserError(
            f'Verilog needs the extra rtl ({error.name} is missing): pip install "vdla[rtl]"'
        ) from None
    return generate_verilog(machine)
