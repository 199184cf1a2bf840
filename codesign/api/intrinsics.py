"""Intrinsics for `Schedule.tensorize`: those of the accelerator, and new ones that a user declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vdla.compiler.codegen.vdla import alu_intrinsics
from vdla.compiler.codegen.vdla import intrinsics as declared
from vdla.compiler.ir.stmt import IntrinsicDeclaration
from vdla.compiler.te.compute import Tensor
from vdla.compiler.te.intrinsic import declare_intrinsic
from vdla.compiler.te.post import Post
from vdla.isa.config import Config, load_config
from vdla.util.errors import UserError
from vdla.verify.intrinsic import check_intrinsic, check_sequence

LANGUAGES = ("llvm", "cuda", "opencl", "vdla")
"""Languages in which a declared intrinsic may have code."""


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
        """The intrinsic of an ALU operation: acc = operation(acc, src), where acc and src are accumulator vectors,
        int32[batch, output channels in a block]. If `immediate` is given, this int16 constant replaces src. `operation`
        is "MAX", for example, or the name of a custom instruction that has an `expression`.

        Returns (intrinsic, its attributes). Pass both to `tensorize`: `s.tensorize(loop, *accelerator.alu("MAX", 0))`.
        Raises ConfigError for an operation that the machine or the loop IR lacks.
        """
        return (
            alu_intrinsics.vector(self.config, operation, immediate),
            alu_intrinsics.vector_attributes(immediate),
        )

    def post(self, post: Post | None = None) -> tuple[IntrinsicDeclaration, tuple[tuple[str, int], ...]]:
        """The intrinsic of STORE.POST, an instruction that requantizes a vector and stores it. It reads int32
        accumulators "acc" [batch, output channels in a block] and int32 parameters "par" [2, output channels in a
        block], and writes int8 "out". `post`: constants of the store, by default `Post()`.

        Returns (intrinsic, attributes of the store). Pass both to `tensorize`: `s.tensorize(loop,
        *accelerator.post())`.
        """
        constants = Post() if post is None else post
        return declared.post(self.config, constants), declared.post_attributes(constants)


def intrinsic(
    name: str,
    semantics: Tensor,
    code: Mapping[str, str],
    *,
    scopes: Mapping[str, str] | None = None,
    adds: bool = False,
    updates: str | None = None,
    machine: Config | str = "vta",
) -> IntrinsicDeclaration:
    """A hardware operation of your own for `Schedule.tensorize`: its semantics, and the code that targets emit.

    Parameters
    ----------
    name : str
        Its name in programs.
    semantics : Tensor
        The result as a tensor expression of placeholders. `tensorize` matches loops with it, and the interpreter runs
        it.
    code : mapping
        Source text by language. "llvm": the body of a function, LLVM IR with the pointer %NAME for each tensor; lines
        that begin with "declare" declare functions. "cuda" and "opencl": statements of one thread, with a pointer NAME
        for each tensor. Elements of an operand follow one another in memory. "vdla": ALU instructions of the
        accelerator, one a line, such as "MAX x, 0" or "ADD x, y". Here x is the tensor that `updates` names, and y is
        another tensor. All tensors are accumulator vectors (int32 [batch, block_out] in the scope "acc").
    scopes : mapping, optional
        The memory of a tensor by its name, such as {"out": "register"}; "dram" for tensors without an entry.
    adds : bool
        The code adds the sum that `semantics` computes to the old elements of the result's buffer, as dot-product
        instructions do. The schedule must set the buffer to 0 first (`decompose_reduction`).
    updates : str, optional
        The placeholder that the result overwrites; schedules use `update_in_place` for its buffer.
    machine : Config or str
        The accelerator whose instructions "vdla" names: a configuration, a preset's name or a TOML file.

    LLVM code and instructions of the accelerator are run on random operands and compared with the semantics. Raises
    UserError if a result differs from the semantics, if the semantics are no operation on placeholders, if LLVM rejects
    the code, or if a line is no instruction of the machine.
    """
    if unknown := sorted(set(code) - set(LANGUAGES)):
        raise UserError(
            f"intrinsic {name}: there is no language {unknown[0]!r}; there are {', '.join(LANGUAGES)}"
        )
    if not code:
        raise UserError(f"intrinsic {name}: give code for one of {', '.join(LANGUAGES)}")
    declaration = declare_intrinsic(name, semantics, code, scopes or {}, adds=adds, updates=updates)
    check_intrinsic(declaration)
    if "vdla" in code:
        check_sequence(declaration, _machine(machine))
    return declaration


def accelerator(config: Config | str = "vta") -> Intrinsics:
    """The intrinsics of an accelerator configuration: a `Config`, a preset's name or a TOML file."""
    return Intrinsics(_machine(config))


def _machine(config: Config | str) -> Config:
    return config if isinstance(config, Config) else load_config(config)
