"""The shipped models: ResNet-18, MobileNet-v1, DQN, a small CNN and an MLP as ONNX files, written by our own code."""

from .build import FORMS, NAMES, build, sample_inputs, write

__all__ = ["FORMS", "NAMES", "build", "sample_inputs", "write"]
