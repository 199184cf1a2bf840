"""LLVM at work: text is parsed, verified and optimised, and becomes machine code in this process."""

from __future__ import annotations

from dataclasses import dataclass

import llvmlite.binding as llvm

from .machine import CpuTarget
from .module import Module


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCode:
    """A compiled module: the function's address, its assembly on demand, and what keeps both alive."""

    address: int
    engine: llvm.ExecutionEngine
    optimised: llvm.ModuleRef
    machine: llvm.TargetMachine

    def assembly(self) -> str:
        """The assembly text of the optimised module."""
        return self.machine.emit_assembly(self.optimised)


def target_machine(target: CpuTarget, *, jit: bool) -> llvm.TargetMachine:
    """LLVM's generator for a target; RuntimeError from llvmlite if LLVM does not know the triple."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=3, reloc="pic", codemodel="jitdefault", jit=jit
    )


def optimise(module: Module, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """The module through LLVM's -O3, without its own loop vectorization and unrolling: schedules decide those."""
    parsed = llvm.parse_assembly(module.text)
    parsed.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    options.loop_interleaving = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(parsed, builder)
    return parsed


def compile_module(module: Module, target: CpuTarget) -> MachineCode:
    """Machine code for this process."""
    machine = target_machine(target, jit=True)
    optimised = optimise(module, machine)
    engine = llvm.create_mcjit_compiler(optimised, machine)
    engine.finalize_object()
    address = engine.get_function_address(module.function)
    return MachineCode(address=address, engine=engine, optimised=optimised, machine=machine)
