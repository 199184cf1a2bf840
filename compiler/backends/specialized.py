"""Networks for models in which the values of inputs determine shapes. The model is compiled at run time for each set of
values.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import helper

from ..frontends.onnx.model.bound_inputs import with_constants
from ..frontends.onnx.model.load import check_sizes, fix_batch, free_inputs, input_shape
from ..frontends.onnx.model.read import Source, read_model
from ..graph.errors import parameters_of
from ..runtime.executable import Executable, Port
from ..runtime.specialized_network import SpecializedNetwork


def specialized(
    model: Source, parameters: tuple[str, ...], compiled: Callable[[bytes], Executable], *, batch: int = 1
) -> SpecializedNetwork:
    """A network that is compiled at run time. For each new set of values of the inputs named `parameters`, the function
    `compiled` gets the serialized model with these values as constants.

    A symbolic first dimension of the inputs becomes `batch`. Raises ModelError for any other symbolic dimension.
    """
    read = read_model(model)
    graph = read.bare.graph
    fix_batch(read.label, read.bare, batch)
    given = free_inputs(graph)
    check_sizes(read.label, given, empty=True)
    ports = [
        Port(
            name=info.name,
            dtype=np.dtype(helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)),
            shape=input_shape(info),
        )
        for info in given
    ]
    return SpecializedNetwork(
        name=graph.name or "graph",
        inputs=tuple(ports),
        parameters=parameters,
        specialize=lambda values: compiled(with_constants(model, values)),
        more=parameters_of,
    )
