"""Limits of the compiler on sizes in a model; each constant is the largest size that is allowed, and is checked before
work begins.

ONNX allows dimensions of 2**63, and a file of 100 bytes can contain them.
"""

from __future__ import annotations

MOST_TENSOR_BYTES = 2**31
"""Largest size of one tensor in bytes, including the pads of a window operator: the size limit of an ONNX file."""
MOST_ARENA_BYTES = 2**34
"""Largest number of bytes of all activations that are live at the same time, on a processor or a GPU."""
MOST_IMAGE_BYTES = 2**32
"""Largest size of an accelerator's memory image in bytes. Instructions address 2**32 vectors, but the AXI bus of the
preset configurations addresses only 2**32 bytes.
"""
MOST_CONSTANT_BYTES = 2**29
"""Largest size in bytes of a constant that the importer computes (constant folding)."""
MOST_LOOPED_ELEMENTS = 2**16
"""Largest number of elements of a constant that ONNX's reference implementation computes one by one, in tens of
microseconds each.
"""
MOST_POSITIONS = 2**20
"""Largest size of an axis for which the index of each element is listed: axes of a resized image, and of a tensor
whose pads are copies of its own elements (such as mirrored pads).
"""
MOST_NUMBERS = 2**20
"""Largest number of elements of a Range whose result is computed before the model runs (for example the numbers of the
tokens of a text, or of the pixels in a row).
"""
MOST_RUNS = 4096
"""Largest number of pieces (pads, parts of a slice) of a tensor, counted over all its axes. A loop of its own moves
each piece.
"""
MOST_PHASES = 4096
"""Largest number of phases of a transposed convolution, each of which is compiled as a convolution. Their number is the
product of the strides (1024 for strides of 32 x 32).
"""
