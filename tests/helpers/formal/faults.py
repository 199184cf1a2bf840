"""Seeded faults for proofs: modules of the accelerator with one line changed."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

Load = Callable[[str], ModuleType]
"""A function that imports a module of the accelerator by name: `importlib.import_module`, or one that returns a faulty
module.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A seeded fault: in the source of `module`, the text `before` (which occurs once) becomes `after`. The proof of
    `property` must fail.
    """

    property: str
    module: str
    before: str
    after: str

    def load(self, folder: Path) -> Load:
        """An import function that returns the faulty module, which is written to `folder`, in place of the correct one.

        Raises ValueError if `before` does not occur exactly once, because the RTL has changed and the fault must be
        adapted.
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
