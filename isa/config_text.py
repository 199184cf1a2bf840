"""Writes a configuration as TOML text."""

from __future__ import annotations

from .config import Config


def toml_text(config: Config, *, as_given: bool = False) -> str:
    """`config` as TOML text for `load_config`. With `as_given`, the extensions are left out if they were derived from
    the shape; `load_config` derives them again.
    """
    values = config.to_dict()
    if as_given and config.chose_extensions:
        del values["extensions"]
    memory = values.pop("memory")
    lines = [f"{name} = {_toml_value(value)}" for name, value in values.items()]
    lines += ["", "[memory]", *(f"{name} = {_toml_value(value)}" for name, value in memory.items())]
    return "\n".join(lines) + "\n"


def _toml_value(value: object) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, list):
        return f"[{', '.join(_toml_value(item) for item in value)}]"
    return str(value)
