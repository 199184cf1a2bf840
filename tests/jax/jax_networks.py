"""Networks in JAX and Flax for the tests of the frontend."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx


def arrays(*shape: int, seed: int = 0) -> np.ndarray:
    """Seeded float32 numbers with a normal distribution."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _mlp(parameters: dict, x: jax.Array) -> jax.Array:
    hidden = jnp.tanh(x @ parameters["first"]["w"] + parameters["first"]["b"])
    return jax.nn.softmax(hidden @ parameters["second"]["w"])


MLP = functools.partial(
    _mlp,
    {"first": {"w": arrays(8, 16, seed=1), "b": arrays(16, seed=2)}, "second": {"w": arrays(16, 4, seed=3)}},
)
"""A function of `x`, (N, 8), with bound parameters."""


class Classifier(nnx.Module):
    """Convolutions, batch normalization, pools and a dense layer, on images of shape (N, 16, 16, 3)."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.conv = nnx.Conv(3, 16, (3, 3), rngs=rngs)
        self.norm = nnx.BatchNorm(16, use_running_average=True, rngs=rngs)
        self.block = nnx.List([nnx.Conv(16, 16, (3, 3), strides=2, rngs=rngs)])
        self.fc = nnx.Linear(16, 10, rngs=rngs)

    def __call__(self, image: jax.Array) -> jax.Array:
        y = jax.nn.relu(self.norm(self.conv(image)))
        y = nnx.avg_pool(jax.nn.relu(self.block[0](y)), window_shape=(2, 2), strides=(2, 2))
        return self.fc(y.mean((1, 2)))


_WEIGHTS = [0.3 * arrays(32, 32, seed=k) for k in range(4)]


def attention(tokens: jax.Array) -> jax.Array:
    """Attention with four heads, in the operations of jax.numpy, of tokens (N, T, 32)."""
    q, k, v = [(tokens @ weight).reshape(*tokens.shape[:2], 4, 8) for weight in _WEIGHTS[:3]]
    shares = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(8))
    return jnp.einsum("bhqk,bkhd->bqhd", shares, v).reshape(tokens.shape) @ _WEIGHTS[3]


class Layer(nnx.Module):
    """A transformer layer of Flax, on tokens of shape (N, T, 32)."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.norm = nnx.LayerNorm(32, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(num_heads=4, in_features=32, decode=False, rngs=rngs)
        self.up, self.down = nnx.Linear(32, 64, rngs=rngs), nnx.Linear(64, 32, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        tokens = tokens + self.attention(self.norm(tokens))
        return tokens + self.down(jax.nn.gelu(self.up(tokens)))
