"""The operators, each a function that returns a loop program; inputs and outputs of most are tensors in blocks of
channels.
"""

from .conv2d import conv2d
from .depthwise import depthwise_conv2d
from .patch_conv2d import patch_conv2d
from .pointwise import average_pool, elementwise, max_pool
from .rolling_pool import patch_conv2d_pool

__all__ = [
    "average_pool",
    "conv2d",
    "depthwise_conv2d",
    "elementwise",
    "max_pool",
    "patch_conv2d",
    "patch_conv2d_pool",
]
