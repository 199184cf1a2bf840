"""The shipped models as ONNX files, written by our own code.

ResNet-18, ResNet-50, MobileNet-v1, DQN, a small CNN and an MLP exist in every form; DCGAN and a language model of LSTMs
exist only in float32. `originals` has networks published by others, `transformers` has BERT, GPT-2 and similar networks
with token ids as inputs.
"""

from .build import FLOAT_NAMES, FORMS, NAMES, ORIGINALS, TRANSFORMERS, build, sample_inputs, write

__all__ = [
    "FLOAT_NAMES",
    "FORMS",
    "NAMES",
    "ORIGINALS",
    "TRANSFORMERS",
    "build",
    "sample_inputs",
    "write",
]
