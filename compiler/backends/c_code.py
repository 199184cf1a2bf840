"""The files that `vdla compile` writes for a processor: an archive, or code for C programs. The suffix of the output
file decides which.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vdla.util.errors import UserError
from vdla.util.files import write_whole

if TYPE_CHECKING:
    from ..runtime.network_archive import NetworkCode


CODE = (".o", ".so")
"""Suffixes of code for C programs: an object or a shared library."""


def code_files(output: Path) -> tuple[Path, ...]:
    """The files that `vdla compile` writes for `output`. With the suffix .tar, or without a suffix, this is an archive.
    With .o or .so it is an object or a shared library, with its C header and a driver program. Raises UserError for
    another suffix, and for a name that cannot be the name of a C function.
    """
    if output.suffix in (".tar", ""):
        return (output,)
    if output.suffix not in CODE:
        raise UserError(
            f"-o {output}: the suffix {output.suffix} is unknown; name a file with the suffix .tar, .o or .so"
        )
    from ..codegen.cpu.c_header import is_c_name

    name = function_name(output)
    if not is_c_name(name):
        raise UserError(
            f"-o {output}: from this name the C function would be called {name!r}, which C does not allow; use "
            "letters, digits and single underscores"
        )
    return (output, output.with_name(f"{name}.h"), output.with_name(f"{name}_main.c"))


def function_name(output: Path) -> str:
    """The name of the function in FILE.o, FILE.so or libFILE.so: FILE."""
    return output.stem.removeprefix("lib") if output.suffix == ".so" else output.stem


def write_code(network: NetworkCode, output: Path) -> None:
    """Writes the network as an object or a shared library, with its C header and a driver program. Each file is written
    completely or not at all. Raises UserError if the processor lacks instructions for a kernel, or if a file cannot be
    written.
    """
    from ..codegen.cpu.c_driver import driver_text
    from ..codegen.cpu.one_object import write_shared_library
    from ..runtime.network_object import emit_network

    code = emit_network(network, name=function_name(output))
    _, header, driver = code_files(output)
    if output.suffix == ".so":
        write_shared_library(code, output)
    else:
        write_whole(output, code.data)
    write_whole(header, code.header.encode())
    write_whole(driver, driver_text(code.name, code.modules[0]).encode())
