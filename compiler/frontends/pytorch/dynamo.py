"""Compiles the graphs that torch.compile traces.

PyTorch traces a graph and passes it to a backend. From then on it calls the function that the backend returns. A graph
is exported and compiled at its first call with each combination of shapes. Parameters and buffers of the model become
constants; if one of them changes, the graph is compiled again. A graph that cannot be compiled runs in PyTorch, and one
line on standard error gives the reason.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vdla.util.errors import UserError

from .arrays import array_of, tensor_of
from .export import export_model, torch_package

MOST_PROGRAMS = 16
"""Largest number of compiled programs of one graph; the oldest program is dropped first."""

Run = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]
"""A compiled network: a function from input arrays by name to output arrays by name."""
Compile = Callable[[bytes], Run]
"""Compiles the bytes of an ONNX model. Raises UserError."""


@dataclass(kw_only=True, eq=False)
class TracedGraph:
    """A graph that torch.compile traced (`graph`, a torch.fx.GraphModule). A call runs the program that was compiled
    for arguments of the same shapes and dtypes; if there is none, `compile` compiles the graph first.

    `programs`: the compiled programs, oldest first; the keys (`_key`) describe the arguments. `refused`: whether a
    compilation failed; PyTorch then runs every call.
    """

    graph: Any
    compile: Compile
    programs: dict[tuple[Any, ...], _Program] = field(default_factory=dict)
    refused: bool = False

    def __call__(self, *args: Any) -> Any:
        """The outputs of the graph for `args`: tensors, and integers for sizes that may change."""
        torch = torch_package()
        if self.refused:
            return self.graph(*args)
        key = tuple([_key(torch, value) for value in args])
        if (program := self.programs.get(key)) is None:
            try:
                program = self._compiled(torch, args)
            except UserError as error:
                self.refused = True
                print(f"vdla: PyTorch runs this graph: {str(error).splitlines()[0]}", file=sys.stderr)
                return self.graph(*args)
            if len(self.programs) == MOST_PROGRAMS:
                self.programs.pop(next(iter(self.programs)))
            self.programs[key] = program
        return program(torch, args)

    def _compiled(self, torch: Any, args: Sequence[Any]) -> _Program:
        if torch.is_grad_enabled() and any(_wants_gradient(torch, value) for value in args):
            raise UserError("its result needs gradients; call the model under torch.no_grad()")
        results = self.graph(*args)
        single = not isinstance(results, tuple | list)
        results = (results,) if single else tuple(results)
        bound = bind(torch, self.graph, args, results)
        inputs = [k for k, value in enumerate(args) if _is_input(torch, value)]
        outputs = [k for k, value in enumerate(results) if isinstance(value, torch.Tensor)]
        model = export_model(bound, [args[k] for k in inputs]).proto
        names = [info.name for info in model.graph.input]
        if len(names) != len(inputs):
            raise UserError(f"its exported model has {len(names)} inputs instead of {len(inputs)}")
        return _Program(
            run=self.compile(model.SerializeToString()),
            inputs=tuple(zip(inputs, names, strict=True)),
            outputs=tuple(zip(outputs, [info.name for info in model.graph.output], strict=True)),
            results=tuple([None if isinstance(value, torch.Tensor) else value for value in results]),
            single=single,
            constants=tuple([value for value in args if not _is_input(torch, value)]),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Program:
    """A compiled graph, which `run` executes. `inputs`: for each input of the compiled model, its position among the
    graph's arguments and its name. `outputs`: for each output of the compiled model, its position among the graph's
    results and its name.

    `results`: the graph's results, with None in place of each tensor. `single`: the graph returns one result instead of
    a tuple. `constants`: the arguments that are no inputs (parameters, buffers, numbers). These objects are kept alive
    here, because the program is found by their ids.
    """

    run: Run
    inputs: tuple[tuple[int, str], ...]
    outputs: tuple[tuple[int, str], ...]
    results: tuple[Any, ...]
    single: bool
    constants: tuple[Any, ...]

    def __call__(self, torch: Any, args: Sequence[Any]) -> Any:
        made = self.run({name: array_of(torch, args[k]) for k, name in self.inputs})
        results = list(self.results)
        for k, name in self.outputs:
            results[k] = tensor_of(torch, np.asarray(made[name]))
        return results[0] if self.single else tuple(results)


def bind(torch: Any, graph: Any, args: Sequence[Any], results: Sequence[Any]) -> Any:
    """Copies `graph` with fewer parameters. Only tensors that change from call to call (`_is_input`) stay parameters;
    all other parameters become constants. `args`: values of the parameters. `results`: values that `graph` returns for
    `args`; the copy returns only those results that are tensors.
    """
    bound = torch.fx.GraphModule(graph, torch.fx.Graph())
    made = bound.graph.graph_copy(graph.graph, {}, return_output_node=True)
    returned = made[0] if isinstance(made, tuple) else made
    placeholders = [node for node in bound.graph.nodes if node.op == "placeholder"]
    for k, (node, value) in enumerate(zip(placeholders, args, strict=True)):
        if _is_input(torch, value):
            continue
        if isinstance(value, torch.Tensor):
            name = f"constant_{k}"
            bound.register_buffer(name, value.detach())
            with bound.graph.inserting_before(node):
                node.replace_all_uses_with(bound.graph.get_attr(name))
        else:
            for user in list(node.users):
                user.args, user.kwargs = torch.fx.node.map_arg(
                    (user.args, user.kwargs), lambda n, node=node, value=value: value if n is node else n
                )
        bound.graph.erase_node(node)
    each = returned if isinstance(returned, tuple | list) else (returned,)
    bound.graph.output(
        tuple([n for n, value in zip(each, results, strict=True) if isinstance(value, torch.Tensor)])
    )
    bound.recompile()
    return bound


def _is_input(torch: Any, value: Any) -> bool:
    """Whether an argument of a graph is a tensor that changes from call to call: no parameter or buffer of a module."""
    static = isinstance(value, torch.nn.Parameter) or hasattr(value, "_dynamo_static_input_type")
    return isinstance(value, torch.Tensor) and not static


def _key(torch: Any, value: Any) -> Any:
    """Key of one argument of a call. Calls whose arguments have equal keys run the same compiled program. The key of an
    input is its shape and dtype; the key of a constant tensor is its id and version; the key of any other value is the
    value itself.
    """
    if not isinstance(value, torch.Tensor):
        return value
    return (value.shape, value.dtype) if _is_input(torch, value) else (id(value), value._version)


def _wants_gradient(torch: Any, value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad
