"""The shipped models as ONNX files, written by our own code.

ResNet-18, ResNet-50, MobileNet-v1, DQN, a small CNN and an MLP in every form; DCGAN and a language model of LSTMs in
float32; in `originals` networks that others publish, in `transformers` BERT, GPT-2 and their like from token ids.
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
