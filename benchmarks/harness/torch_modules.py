"""PyTorch modules with example inputs, for `exported_networks.py make`: from torchvision, from transformers, or written
with torch.nn.

The functions that build a network import torch, torchvision and transformers, which nothing else of the project needs.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

SEED = 0
"""Seed of the example inputs of the modules."""

Example = tuple[Any, tuple[np.ndarray, ...]]
"""A torch module in evaluation mode, and the arrays that are the arguments of its `forward`."""


def image(size: int, channels: int = 3) -> tuple[np.ndarray, ...]:
    """One square image of normally distributed noise: float32 [1, `channels`, `size`, `size`], as a tuple of one."""
    return (_rng().standard_normal((1, channels, size, size)).astype(np.float32),)


def ids(length: int, words: int) -> tuple[np.ndarray, ...]:
    """One sequence of random word ids from 0 to `words` - 1: int64 [1, `length`], as a tuple of one."""
    return (_rng().integers(0, words, (1, length)).astype(np.int64),)


def _rng() -> np.random.Generator:
    return np.random.default_rng(SEED)


def classifier(name: str, size: int = 64, **options: Any) -> Callable[[], Example]:
    """A function that makes torchvision's classifier `name` with random weights and `options` as arguments, and an
    image of `size` rows and columns.
    """
    return lambda: (getattr(import_module("torchvision").models, name)(weights=None, **options), image(size))


def segmentation(name: str, size: int = 64) -> Callable[[], Example]:
    """A function that makes torchvision's segmentation network `name` with random weights, and as its input an image of
    `size` rows and columns. The network is wrapped to return the tensor "out" of its dictionary of outputs.
    """

    def example() -> Example:
        segmentations = import_module("torchvision").models.segmentation
        return named("out", getattr(segmentations, name)(weights=None, weights_backbone=None)), image(size)

    return example


def transformer(
    model: str, configuration: str, inputs: tuple[np.ndarray, ...], output: str, **sizes: Any
) -> Callable[[], Example]:
    """A function that makes a model of the transformers package with random weights and returns it with `inputs`.
    `model`, `configuration`: names of the package's classes; `sizes`: fields of the configuration; `output`: name of
    the only output that the changed model returns.
    """

    def example() -> Example:
        transformers = import_module("transformers")
        settings = getattr(transformers, configuration)(attn_implementation="eager", **sizes)
        return named(output, getattr(transformers, model)(settings)), inputs

    return example


def named(output: str, module: Any) -> Any:
    """The torch module `module`, changed to return only the entry `output` of its outputs."""
    torch = import_module("torch")

    class Entry(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, *inputs: Any) -> Any:
            return self.inner(*inputs)[output]

    return Entry()


def own(build: Callable[[Any], Any], inputs: tuple[np.ndarray, ...]) -> Callable[[], Example]:
    """A function that makes a module written with torch.nn and returns it with `inputs`; `build` receives the module
    torch.
    """
    return lambda: (build(import_module("torch")), inputs)


def noise(*shape: int) -> tuple[np.ndarray, ...]:
    """One float32 array of `shape`, normally distributed noise, as a tuple of one."""
    return (_rng().standard_normal(shape).astype(np.float32),)


def multilayer_perceptron(torch: Any) -> Any:
    """A torch module of dense layers with batch normalization and two kinds of activations."""
    nn = torch.nn
    return nn.Sequential(
        nn.Linear(64, 128), nn.BatchNorm1d(128), nn.GELU(), nn.Linear(128, 96), nn.SiLU(), nn.Linear(96, 10)
    )


def autoencoder(torch: Any) -> Any:
    """A torch module of strided convolutions, followed by transposed ones."""
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(),
        nn.ConvTranspose2d(32, 16, 2, 2), nn.ReLU(), nn.ConvTranspose2d(16, 3, 2, 2), nn.Sigmoid(),
    )  # fmt: skip


def temporal(torch: Any) -> Any:
    """A torch module of dilated convolutions along one dimension, as in networks for speech and sensors."""
    nn = torch.nn
    return nn.Sequential(
        nn.Conv1d(16, 32, 3, padding=1), nn.BatchNorm1d(32), nn.ReLU(), nn.Conv1d(32, 32, 3, padding=2, dilation=2),
        nn.PReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, 5),
    )  # fmt: skip


def super_resolution(torch: Any) -> Any:
    """A torch module of convolutions; the last one gives nine channels that become 3x3 pixels each (sub-pixel
    convolution).
    """
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.Tanh(), nn.Conv2d(32, 32, 3, padding=1), nn.Tanh(),
        nn.Conv2d(32, 9, 3, padding=1), nn.PixelShuffle(3),
    )  # fmt: skip


def encoder(torch: Any) -> Any:
    """A layer of torch's own transformer encoder."""
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


BODY = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
SMALL = {**BODY, "vocab_size": 200}
"""Configuration of a small model; most configurations of the transformers package have fields with these names."""
DECODER = {**SMALL, "num_key_value_heads": 2, "use_cache": False, "max_position_embeddings": 64}
TEXT, LAST = ids(24, 200), "last_hidden_state"

NETWORKS: dict[str, Callable[[], Example]] = {
    "alexnet": classifier("alexnet"),
    "vgg11_bn": classifier("vgg11_bn", 32, num_classes=10),
    "resnet18": classifier("resnet18"),
    "resnet50": classifier("resnet50"),
    "resnext50": classifier("resnext50_32x4d"),
    "mobilenet_v2": classifier("mobilenet_v2"),
    "mobilenet_v3_small": classifier("mobilenet_v3_small"),
    "mobilenet_v3_large": classifier("mobilenet_v3_large"),
    "efficientnet_b0": classifier("efficientnet_b0"),
    "efficientnet_v2_s": classifier("efficientnet_v2_s"),
    "densenet121": classifier("densenet121"),
    "squeezenet1_1": classifier("squeezenet1_1"),
    "shufflenet_v2": classifier("shufflenet_v2_x1_0"),
    "googlenet": classifier("googlenet", init_weights=False, aux_logits=False),
    "inception_v3": classifier("inception_v3", 96, init_weights=False, aux_logits=False),
    "mnasnet1_0": classifier("mnasnet1_0"),
    "regnet_y_400mf": classifier("regnet_y_400mf"),
    "regnet_x_400mf": classifier("regnet_x_400mf"),
    "convnext_tiny": classifier("convnext_tiny"),
    "vit_small": lambda: (
        import_module("torchvision").models.VisionTransformer(64, 16, 2, 4, 64, 128, num_classes=10), image(64),
    ),
    "swin_t": classifier("swin_t"),
    "lraspp": segmentation("lraspp_mobilenet_v3_large"),
    "deeplabv3_mobilenet": segmentation("deeplabv3_mobilenet_v3_large"),
    "bert": transformer("BertModel", "BertConfig", TEXT, LAST, **SMALL),
    "distilbert": transformer(
        "DistilBertModel", "DistilBertConfig", TEXT, LAST, dim=64, n_layers=2, n_heads=4, hidden_dim=128,
        vocab_size=200,
    ),
    "roberta": transformer("RobertaModel", "RobertaConfig", TEXT, LAST, **SMALL),
    "electra": transformer("ElectraModel", "ElectraConfig", TEXT, LAST, embedding_size=64, **SMALL),
    "gpt2": transformer(
        "GPT2Model", "GPT2Config", TEXT, LAST, n_embd=64, n_layer=2, n_head=4, n_positions=64, vocab_size=200,
        use_cache=False,
    ),
    "opt": transformer(
        "OPTModel", "OPTConfig", TEXT, LAST, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, ffn_dim=128,
        vocab_size=200, word_embed_proj_dim=64, max_position_embeddings=64, use_cache=False,
    ),
    "llama": transformer("LlamaModel", "LlamaConfig", TEXT, LAST, **DECODER),
    "qwen2": transformer("Qwen2Model", "Qwen2Config", TEXT, LAST, **DECODER),
    "wav2vec2": transformer(
        "Wav2Vec2Model", "Wav2Vec2Config", noise(1, 1600), LAST, hidden_size=64, num_hidden_layers=2,
        num_attention_heads=4, intermediate_size=128, conv_dim=(32, 32), conv_stride=(5, 4), conv_kernel=(10, 8),
        num_feat_extract_layers=2, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4,
    ),
    "vit": transformer("ViTModel", "ViTConfig", image(64), LAST, image_size=64, patch_size=16, **BODY),
    "segformer": transformer(
        "SegformerForSemanticSegmentation", "SegformerConfig", image(64), "logits", hidden_sizes=[16, 32, 48, 64],
        decoder_hidden_size=32, depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 3, 4],
    ),
    "audio_spectrogram": transformer(
        "ASTModel", "ASTConfig", noise(1, 64, 32), LAST, max_length=64, num_mel_bins=32, patch_size=16,
        frequency_stride=16, time_stride=16, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=128,
    ),
    "mlp": own(multilayer_perceptron, noise(4, 64)),
    "autoencoder": own(autoencoder, image(32)),
    "temporal": own(temporal, noise(1, 16, 50)),
    "super_resolution": own(super_resolution, image(24, 1)),
    "encoder": own(encoder, noise(1, 16, 64)),
}  # fmt: skip
