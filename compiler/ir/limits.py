"""How large anything may be that a model asks for: all limits of the compiler, each checked before work begins.

ONNX allows dimensions of 2**63, and a file of 100 bytes can ask for them.
"""

from __future__ import annotations

MOST_TENSOR_BYTES = 2**31
"""Of one tensor, or of one as a window sees it, with its pads: as much as the largest file of ONNX holds."""
MOST_ARENA_BYTES = 2**34
"""Of all activations that live together, on a processor or a GPU."""
MOST_IMAGE_BYTES = 2**32
"""Of an accelerator's memory image: its stores address 2**32 vectors, AXI of the presets 2**32 bytes."""
MOST_CONSTANT_BYTES = 2**29
"""Of a constant that is computed at import."""
MOST_LOOPED_ELEMENTS = 2**16
"""Of a constant that ONNX's reference implementation computes element by element, in tens of microseconds each."""
MOST_POSITIONS = 2**20
"""Of an axis whose elements are placed one by one: pads that repeat the tensor, rows and columns of a resized image."""
MOST_NUMBERS = 2**20
"""Of the result of a Range that is known before the model runs: positions in a text, pixels in a row."""
MOST_RUNS = 4096
"""Pieces of a tensor that are moved each by a loop of its own (pads, parts of a slice), over all axes."""
MOST_PHASES = 4096
"""Of a transposed convolution, each a convolution of its own: product of its strides (32 x 32 has 1024)."""
