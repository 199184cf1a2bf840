"""Models compiled by torch.compile: the backend "vdla" compared with PyTorch's own backend, inductor.

    make .venv-torch/.installed
    .venv-torch/bin/python -m vdla.benchmarks.torch_compile [NAME ...] [--rounds N] [--json] [--write]

Each model is compiled by both backends in one process, on one thread, and called as a user calls it, with PyTorch
tensors, under torch.no_grad(). Both get two calls before the clock starts. The outputs of both are compared with those
of PyTorch without compilation first: `error`, `peer_error` are the largest differences, relative to the largest value.
`ratio` is our time over inductor's: thread CPU time, calls interleaved, the median over the rounds; below 1 is faster.
Weights are seeded. `gpt2_cache` decodes one token with the keys and values of 63 earlier ones as inputs and outputs.
Exit code 1: outputs differ from PyTorch's.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from time import thread_time
from typing import Any

import numpy as np

from vdla.benchmarks.exported_networks import WEIGHTS_SEED
from vdla.benchmarks.harness.case import relative_error
from vdla.benchmarks.harness.command_line import OUTPUT, ROUNDS, Given, names_of, run_script
from vdla.benchmarks.harness.output import finish, measure_all
from vdla.codesign.timing import interleaved, ratio

LARGEST_ERROR = 1e-4
LAYERS, LENGTH, PAST = 4, 128, 63
WARM_UP = 2
"""Number of calls of each compiled model before the clock starts."""


@dataclass(frozen=True, slots=True)
class Model:
    """A module in evaluation mode and the tensors that it is called with."""

    module: Any
    arguments: tuple[Any, ...]


def _resnet18() -> Model:
    torch, vision = import_module("torch"), import_module("torchvision")
    return Model(vision.models.resnet18(weights=None), (torch.randn(1, 3, 224, 224),))


def _bert() -> Model:
    torch, transformers = import_module("torch"), import_module("transformers")
    configuration = transformers.BertConfig(num_hidden_layers=LAYERS)
    return Model(transformers.BertModel(configuration), (torch.randint(0, 30000, (1, LENGTH)),))


def _gpt2_cache() -> Model:
    """A model that decodes one token with GPT-2. Its cache is passed as plain tensors: keys and values of each
    layer.
    """
    torch, transformers = import_module("torch"), import_module("transformers")
    configuration = transformers.GPT2Config(n_layer=LAYERS)
    model = transformers.GPT2LMHeadModel(configuration).eval()
    cache_type = transformers.cache_utils.DynamicCache

    class Step(torch.nn.Module):
        """A module for one decoding step: it returns the next token's logits, and the longer cache."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, token: Any, *past: Any) -> tuple[Any, ...]:
            cache = cache_type()
            for layer in range(LAYERS):
                cache.update(past[2 * layer], past[2 * layer + 1], layer)
            result = self.model(token, past_key_values=cache, use_cache=True)
            made = result.past_key_values
            return (result.logits, *(part for layer in made.layers for part in (layer.keys, layer.values)))

    heads, size = configuration.n_head, configuration.n_embd // configuration.n_head
    past = [torch.randn(1, heads, PAST, size) for _ in range(2 * LAYERS)]
    return Model(Step(), (torch.randint(0, 50000, (1, 1)), *past))


MODELS: dict[str, Callable[[], Model]] = {
    "resnet18": _resnet18,
    "bert": _bert,
    "gpt2_cache": _gpt2_cache,
}


def row(name: str, rounds: int) -> dict[str, Any]:
    """Measures the model `name` over `rounds` rounds; returns its row of the results."""
    torch = import_module("torch")
    torch.set_num_threads(1)
    torch.manual_seed(WEIGHTS_SEED)
    model = MODELS[name]()
    module = model.module.eval()

    def called(run: Callable[..., Any]) -> list[np.ndarray]:
        with torch.no_grad():
            result = run(*model.arguments)
        # A transformer of the transformers package returns its tensors by name.
        tensors = tuple(result.values()) if isinstance(result, Mapping) else result
        return [tensor.numpy() for tensor in (tensors if isinstance(tensors, tuple) else (tensors,))]

    expected = called(module)
    errors = dict[str, float]()
    compiled = dict[str, Callable[..., Any]]()
    for backend in ("vdla", "inductor"):
        torch._dynamo.reset()
        compiled[backend] = torch.compile(module, backend=backend)
        made = [called(compiled[backend]) for _ in range(WARM_UP)][-1]
        errors[backend] = max(relative_error(a, b) for a, b in zip(made, expected, strict=True))
    ours, peers = interleaved(thread_time, [partial(called, run) for run in compiled.values()], rounds)
    return {
        "name": name,
        "milliseconds": round(1e3 * statistics.median(ours), 3),
        "peer_milliseconds": round(1e3 * statistics.median(peers), 3),
        "ratio": round(ratio(ours, peers), 3),
        "error": errors["vdla"],
        "peer_error": errors["inductor"],
    }


def line(figures: dict[str, Any]) -> str:
    """The row of results of a model, `figures` as `row` returns it, as a line of text."""
    return (
        f"{figures['name']:12} {figures['milliseconds']:9.2f} ms, inductor {figures['peer_milliseconds']:9.2f} ms, "
        f"ratio {figures['ratio']:.2f}, error {figures['error']:.1e} (inductor {figures['peer_error']:.1e})"
    )


OPTIONS = (names_of(MODELS, "model"), ROUNDS.but(default=25), *OUTPUT)


def main(options: Given) -> int:
    names = options.names or list(MODELS)
    rows = measure_all(names, lambda name: row(name, options.rounds), line, quiet=options.json)
    finish(options, "torch_compile", {"threads": 1, "rows": rows}, packages=("torch", "transformers"))
    return any(figures["error"] > LARGEST_ERROR for figures in rows)


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
