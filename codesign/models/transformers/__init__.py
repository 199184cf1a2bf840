"""Transformers with token ids as inputs and seeded weights, with the nodes that ONNX exporters write: BERT, MobileBERT,
GPT-2, Llama.
"""

from .bert import BertSizes, MobileBertSizes, bert, mobilebert
from .gpt2 import Gpt2Sizes, gpt2, gpt2_decode
from .llama import LlamaSizes, llama, llama_decode
from .table import NAMES, build_transformer, token_inputs

__all__ = [
    "NAMES",
    "BertSizes",
    "Gpt2Sizes",
    "LlamaSizes",
    "MobileBertSizes",
    "bert",
    "build_transformer",
    "gpt2",
    "gpt2_decode",
    "llama",
    "llama_decode",
    "mobilebert",
    "token_inputs",
]
