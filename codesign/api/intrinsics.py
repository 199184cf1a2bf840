"""The accelerator's intrinsics, for `Schedule.tensorize`."""

from __future__ import annotations

from dataclasses import dataclass

from vdla.compiler.codegen.vdla import intrinsics as declared
from vdla.compiler.ir.stmt import IntrinsicDeclaration
from vdla.compiler.te.post import Post
from vdla.isa.config import Config, load_config


@dataclass(frozen=True, slots=True)
class Intrinsics:
    """The operations that one configuration's units compute in one step."""

    config: Config

    @property
    def gemm(self) -> IntrinsicDeclaration:
        """acc int32[B, co] += inp int8[B, ci] times the transpose of wgt int8[co, ci]."""
        return declared.gemm(self.config)

    def post(self, post: Post | None = None) -> tuple[IntrinsicDeclaration, tuple[tuple[str, int], ...]]:
        """One vector of STORE.POST, out int8[B, co] from acc and par int32[2, co]; and the attributes of the store.

        Pass both to `tensorize`: `s.tensorize(loop, *accelerator.post())`.
        """
        constants = Post() if post is None else post
        return declared.post(self.config, constants), declared.post_attributes(constants)


def accelerator(config: Config | str = "vta") -> Intrinsics:
    """The intrinsics of a configuration."""
    return Intrinsics(config if isinstance(config, Config) else load_config(config))
