"""What `--target` may name: the accelerator, a processor, both, or a GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vdla.util.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Whether `--target` names the accelerator, and the processor or GPU as their parsers take it ("" for none)."""

    vdla: bool = False
    llvm: str = ""
    cuda: str = ""


def parse_targets(text: str) -> Targets:
    """The targets of a list such as "vdla,llvm -mattr=+avx2,+fma", or a GPU alone ("cuda ..."). Raises UserError."""
    parts = [part.strip() for part in re.split(r",(?=\s*(?:vdla|llvm|cuda)\b)", text)]
    words = [part.split()[:1] for part in parts]
    if words == [["cuda"]]:
        return Targets(cuda=parts[0])
    llvm = [part for part, word in zip(parts, words, strict=True) if word == ["llvm"]]
    vdla = [part for part in parts if part == "vdla"]
    if len(llvm) + len(vdla) != len(parts) or len(llvm) > 1 or len(vdla) > 1:
        raise UserError(
            f'--target "{text}": there are vdla (the accelerator), llvm (this processor), vdla,llvm for both, and '
            "cuda (a GPU)"
        )
    return Targets(vdla=bool(vdla), llvm=llvm[0] if llvm else "")
