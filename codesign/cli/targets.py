"""Targets that `--target` may name: the accelerator, a processor, both, or a GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vdla.util.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """The targets in the text of `--target`: whether it names the accelerator (`vdla`), and the texts of the processor
    and of the GPU ("" if not named).
    """

    vdla: bool = False
    llvm: str = ""
    gpu: str = ""

    @property
    def gpu_name(self) -> str:
        """The name of the GPU's backend; "" if no GPU is named."""
        return self.gpu.split()[0] if self.gpu else ""


def parse_targets(text: str) -> Targets:
    """The targets of a list such as "vdla,llvm -mattr=+avx2,+fma", or a GPU alone ("cuda ..."). Raises UserError."""
    from vdla.compiler.runtime.gpus import GPUS

    parts = [part.strip() for part in re.split(rf",(?=\s*(?:{'|'.join(('vdla', 'llvm', *GPUS))})\b)", text)]
    words = [part.split()[:1] for part in parts]
    if len(words) == 1 and words[0] and words[0][0] in GPUS:
        return Targets(gpu=parts[0])
    llvm = [part for part, word in zip(parts, words, strict=True) if word == ["llvm"]]
    vdla = [part for part in parts if part == "vdla"]
    if len(llvm) + len(vdla) != len(parts) or len(llvm) > 1 or len(vdla) > 1:
        gpus = " or ".join(f"{name} ({gpu.device})" for name, gpu in GPUS.items())
        raise UserError(
            f'--target "{text}": choose vdla (the accelerator), llvm (this processor), vdla,llvm for both, or '
            f"{gpus}"
        )
    return Targets(vdla=bool(vdla), llvm=llvm[0] if llvm else "")


def gpu_number(device: str, name: str) -> int:
    """The number of a device of the backend `name`, from text like "cuda:0" ("cuda" alone: 0). Raises UserError for
    other texts.
    """
    from vdla.compiler.runtime.gpus import GPUS

    number = "0" if device == name else device.removeprefix(f"{name}:")
    if not (number.isdecimal() and number.isascii()):
        emulated = f", or {name}:emulated for none" if GPUS[name].emulated else ""
        raise UserError(
            f'device "{device}": write {name}:0 for the first GPU, {name}:1 for the next one{emulated}'
        )
    return int(number)
