"""Seeded bugs: a module of the accelerator with one line changed."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

Load = Callable[[str], ModuleType]
"""Gives a module of the accelerator by its name: `importlib.import_module`, or one that breaks it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """In `module`, the text `before` (which occurs once) becomes `after`; the proof of `property` must notice."""

    property: str
    module: str
    before: str
    after: str

    def load(self, folder: Path) -> Load:
        """An import function that gives the broken module, written to `folder`, in place of the good one.

        Raises ValueError if `before` is not there exactly once: the RTL has changed, and the fault must follow.
        """
        source = Path(str(importlib.import_module(self.module).__file__)).read_text(encoding="utf-8")
        if source.count(self.before) != 1:
            raise ValueError(
                f"{self.module} contains {self.before!r} {source.count(self.before)} times; "
                "adapt the fault to the present text of the module"
            )
        path = folder / f"{self.module.rpartition('.')[2]}.py"
        path.write_text(source.replace(self.before, self.after), encoding="utf-8")

        def load(name: str) -> ModuleType:
            if name != self.module:
                return importlib.import_module(name)
            # Not in sys.modules: every other importer keeps the good one.
            spec = importlib.util.spec_from_file_location(name, path)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module

        return load
