"""Seeded sample inputs: smooth random images with very different colours, contrasts and textures.

White noise is unsuitable: after a global average all noise images are nearly equal. Each sample is a sum of random
grids of several sizes, interpolated to full resolution, with a random weight for each size.
"""

import numpy as np
from numpy.typing import NDArray

from .layers import Float64Array, Network

LIMIT = 3.0
OCTAVES = (2, 4, 8, 16)


def sample_images(network: Network, count: int, seed: int) -> Float64Array:
    """Return float64 [count, *input_shape] within ``[-LIMIT, LIMIT]``; sample `i` depends on `seed` and `i` only."""
    flat = len(network.input_shape) == 1
    shape = (1, 28, 28) if flat else network.input_shape
    samples = [_image(np.random.default_rng([seed, index]), *shape) for index in range(count)]
    # Rounded to float32, so that calibration uses exactly the values of the shipped samples.
    return np.stack(samples).reshape(count, *network.input_shape).astype(np.float32).astype(np.float64)


def sample_noise(shape: tuple[int, ...], count: int, seed: int) -> NDArray[np.float32]:
    """Return float32 [count, *shape], normal within ``[-LIMIT, LIMIT]``; sample `i` depends on `seed` and `i` only."""
    samples = [np.random.default_rng([seed, index]).standard_normal(shape) for index in range(count)]
    return np.clip(np.reshape(samples, (count, *shape)), -LIMIT, LIMIT).astype(np.float32)


def calibration_families(network: Network, count: int, seed: int) -> tuple[Float64Array, ...]:
    """Return the inputs of calibration: `count` sample images, and half as many (at least 2) of each common kind of
    noise.

    Users often try a network on standard normal or uniform noise first; the layers should neither die nor saturate
    then.
    """
    rng = np.random.default_rng([seed, count])
    shape = (max(count // 2, 2), *network.input_shape)
    return (
        sample_images(network, count, seed),
        np.clip(rng.standard_normal(shape), -LIMIT, LIMIT),
        rng.random(shape),
    )


def _image(rng: np.random.Generator, channels: int, height: int, width: int) -> Float64Array:
    image = rng.uniform(0.05, 0.4) * rng.standard_normal((channels, height, width))
    for cells in OCTAVES:
        amplitude = rng.uniform(0.0, 1.0) ** 2
        image += amplitude * _interpolate(
            rng.standard_normal((channels, cells + 1, cells + 1)), height, width
        )
    image *= rng.uniform(0.6, 1.1) / np.sqrt(np.mean(image * image))
    return np.clip(image + rng.uniform(-0.4, 0.4, (channels, 1, 1)), -LIMIT, LIMIT)


def _interpolate(grid: Float64Array, height: int, width: int) -> Float64Array:
    """Bilinear interpolation of `grid`, [channels, n + 1, n + 1], to [channels, height, width]."""
    cells = grid.shape[1] - 1

    def positions(size: int) -> tuple[np.ndarray, Float64Array]:
        place = np.arange(size) * cells / size
        whole = place.astype(np.int64)
        return whole, place - whole

    row, down = positions(height)
    column, right = positions(width)
    tall = grid[:, row] * (1 - down)[:, None] + grid[:, row + 1] * down[:, None]
    return tall[:, :, column] * (1 - right) + tall[:, :, column + 1] * right
