"""Queries of LLVM about a processor's features. They run in a separate process, because LLVM ends its process when
features contradict each other.

    python -m vdla.compiler.codegen.cpu.llvm_query TRIPLE CPU FEATURES QUERY ...

prints a JSON list of bools. Each QUERY is a list of features such as "+v,+zvl256b"; its bool says whether the processor
has all of them. LLVM's own messages about unknown names appear on standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import llvmlite.binding as llvm

from .architectures import initialise


def includes(triple: str, cpu: str, features: str, others: Sequence[tuple[str, str]]) -> list[bool]:
    """For each (processor, features) in `others`: whether the processor `cpu` with `features` has all features of that
    other processor.

    llvmlite has no function for this query, but LLVM's inliner answers it: it inlines a function only if the caller's
    processor has every feature of the callee's. So each of `others` becomes a function; functions that remain were not
    inlined.
    """
    initialise()
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features)
    lines = [f'target triple = "{triple}"']
    for i, (other, wanted) in enumerate(others):
        attributes = f'"target-cpu"="{other}" "target-features"="{wanted}"'
        lines.append(f"define internal void @f{i}(ptr %p) {attributes} {{")
        lines += [f"  store volatile i32 {i}, ptr %p", "  ret void", "}"]
    lines.append(f'define void @caller(ptr %p) "target-cpu"="{cpu}" "target-features"="{features}" {{')
    lines += [f"  call void @f{i}(ptr %p)" for i in range(len(others))]
    lines += ["  ret void", "}"]
    module = llvm.parse_assembly("\n".join(lines))
    module.data_layout = str(machine.target_data)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    builder.getModulePassManager().run(module, builder)
    left = {function.name for function in module.functions}
    return [f"f{i}" not in left for i in range(len(others))]


def joined(*features: str) -> str:
    """Joins comma-separated lists of features to one list; empty lists are left out."""
    return ",".join([f for f in features if f])


def main(triple: str, cpu: str, features: str, *queries: str) -> None:
    """Prints a JSON list of bools: for each of `queries`, lists of features such as "+v,+zvl256b", whether the
    processor `cpu` of target `triple`, with the additional `features`, has all features of the list.
    """
    others = [(cpu, joined(features, query)) for query in queries]
    print(json.dumps(includes(triple, cpu, features, others)))


if __name__ == "__main__":
    main(*sys.argv[1:])
