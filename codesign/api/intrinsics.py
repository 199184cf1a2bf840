"""The accelerator's intrinsics, for `Schedule.tensorize`."""

from __future__ import annotations

from dataclasses import dataclass

from vdla.compiler.codegen.vdla import alu_intrinsics
from vdla.compiler.codegen.vdla import intrinsics as declared
from vdla.compiler.ir.stmt import IntrinsicDeclaration
from vdla.compiler.te.post import Post
from vdla.isa.config import Config, load_config


@dataclass(frozen=True, slots=True)
class Intrinsics:
    """The accelerator's intrinsics for one configuration: operations that its units compute in one step."""

    config: Config

    @property
    def gemm(self) -> IntrinsicDeclaration:
        """The GEMM intrinsic: acc int32[B, co] += inp int8[B, ci] times the transpose of wgt int8[co, ci]; B is the
        batch, ci and co are the numbers of input and output channels in a block.
        """
        return declared.gemm(self.config)

    def alu(
        self, operation: str, immediate: int | None = None
    ) -> tuple[IntrinsicDeclaration, tuple[tuple[str, int], ...]]:
        """The intrinsic of the ALU operation with the name `operation` ("MAX", or a custom instruction with an
        `expression`) on one accumulator vector, and its attributes: acc int32[B, co] = operation(acc, src int32[B, co]
        or the int16 `immediate`).

        Pass both to `tensorize`: `s.tensorize(loop, *accelerator.alu("MAX", 0))`. Raises ConfigError for an operation
        that the machine or the loop IR lacks.
        """
        return (
            alu_intrinsics.vector(self.config, operation, immediate),
            alu_intrinsics.vector_attributes(immediate),
        )

    def post(self, post: Post | None = None) -> tuple[IntrinsicDeclaration, tuple[tuple[str, int], ...]]:
        """The intrinsic of STORE.POST, which requantizes one vector while it is stored (out int8[B, co] from acc
        int32[B, co] and par int32[2, co]), and the attributes of the store.

        Pass both to `tensorize`: `s.tensorize(loop, *accelerator.post())`. `post`: constants of the store, by default
        `Post()`.
        """
        constants = Post() if post is None else post
        return declared.post(self.config, constants), declared.post_attributes(constants)


def accelerator(config: Config | str = "vta") -> Intrinsics:
    """The intrinsics of an accelerator configuration: a `Config`, a preset's name or a TOML file."""
    return Intrinsics(config if isinstance(config, Config) else load_config(config))
