"""Option --import: imports a user's module and checks the custom instructions in it."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

from vdla.isa.custom import AluInstruction
from vdla.util.errors import UserError


def import_module_of_user(name: str) -> None:
    """Imports the module `name` (dotted, from the current folder or installed) or the Python file `name` (ends with
    .py), and checks each custom instruction that the module has. Worker processes can import the module, too.

    Raises UserError if there is no such module, and if its code raises an exception; ConfigError for an instruction
    whose RTL, simulator code or other part computes another result than its semantics.
    """
    path = Path(name)
    folder, module = (path.parent, path.stem) if path.suffix == ".py" else (Path(), name)
    if path.suffix == ".py" and not path.is_file():
        raise UserError(f"--import {name}: there is no such file")
    place = str(folder.resolve())
    sys.path.insert(0, place)
    # Worker processes of tuning, exploration and co-simulation import the module by its name.
    known = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = place if not known else os.pathsep.join((place, known))
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            hint = ': pip install "vdla[rtl]"' if error.name == "amaranth" else ""
            raise UserError(
                f"--import {name}: it imports {error.name!r}, which is not installed{hint}"
            ) from None
        raise UserError(
            f"--import {name}: there is no module {module!r} in the current folder or installed; for a file elsewhere "
            "give its path, which ends with .py"
        ) from None
    except Exception as error:
        raise UserError(f"--import {name}: {type(error).__name__}: {error}") from error
    for item in vars(found).values():
        if isinstance(item, AluInstruction):
            # Imported late: it needs the extra `rtl`, as the instruction's module does.
            from vdla.verify.custom import check_instruction

            check_instruction(item)
