"""Benchmark cases (our computation and ONNX Runtime's) of whole networks: batch 1, on sample inputs."""

from __future__ import annotations

import numpy as np

from vdla.codesign import models
from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.pipeline import compile_kernels

from .case import Case, relative_error
from .peer import session

NETWORKS = {
    "resnet18": ("resnet18", "float"),
    "mobilenet": ("mobilenet", "float"),
    "language_model": ("language_model", "float"),
    "dqn": ("dqn", "float"),
    "dcgan": ("dcgan", "float"),
    "resnet18_int8": ("resnet18", "u8"),
    "mobilenet_int8": ("mobilenet", "u8"),
    "dqn_int8": ("dqn", "u8"),
}
"""The measured networks as (shipped model, form of the model), by the name of the row: the TVM paper's five networks,
some of them also quantized in the form that ONNX Runtime runs fastest (QDQ, uint8 activations).
"""


def network_case(name: str, threads: int) -> Case:
    """The benchmark case (our computation and ONNX Runtime's), on `threads` threads, of the network `name`."""
    model, form = NETWORKS[name]
    exported = models.build(model, form)
    feeds = {"input": models.sample_inputs(model, 1)}
    network = compile_kernels(exported.SerializeToString(), cpu_now())
    peer = session(exported, threads)
    got = network.run(feeds, threads=threads)["output"]
    return Case(
        name=name,
        threads=threads,
        operations=float(sum(launch.operations for launch in network.launches)),
        error=relative_error(got, np.asarray(peer.run(None, feeds)[0])),
        ours=(lambda: network.run(feeds, threads=threads),),
        peer=(lambda: peer.run(None, feeds),),
        close=network.close,
    )
