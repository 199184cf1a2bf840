"""A small GPT in vdla.nn: one compiled network for prompts of any length, and the cycles of its parts.

    pip install -e . && python examples/nn_gpt.py

The layers keep the weights that vdla.nn draws; the last layer is fitted, by least squares, so that the network
continues a sentence that it knows. A prompt runs on this processor; one layer runs on the accelerator, in int8.
"""

import numpy as np

import vdla
from vdla import nn

SENTENCE = "a tile is computed while the next one arrives."
LETTERS = sorted(set(SENTENCE))
LONGEST, WIDTH = 48, 64


class Layer(nn.Module):
    """Causal attention, then two dense layers. Each of the two parts has a normalization before it and a residual
    connection.
    """

    def __init__(self, width: int, heads: int) -> None:
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiHeadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Maps `x` [batch, sequence, width] to a tensor of the same shape."""
        x = x + self.attention(self.norm1(x), is_causal=True)
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """The whole network: it maps letters to the scores of the next letters."""

    def __init__(self, width: int = WIDTH, heads: int = 4, layers: int = 2) -> None:
        self.letters, self.positions = nn.Embedding(len(LETTERS), width), nn.Embedding(LONGEST, width)
        self.layers = nn.ModuleList([Layer(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, len(LETTERS))

    def states(self, ids: nn.Tensor) -> nn.Tensor:
        """Maps `ids`, int64 [batch, sequence], to the outputs of the last layer, [batch, sequence, width]."""
        x = self.letters(ids) + self.positions(nn.functional.arange(ids.shape[1], ids))
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)

    def forward(self, ids: nn.Tensor) -> nn.Tensor:
        """Maps `ids`, int64 [batch, sequence], to scores [batch, sequence, letters]."""
        return self.head(self.states(ids))


def fitted() -> Gpt:
    """A network whose last layer is fitted so that the network predicts, after each letter of `SENTENCE`, the next
    letter.
    """
    network, ids = Gpt(), np.array([[LETTERS.index(letter) for letter in SENTENCE]])
    spec = {"states": {"ids": nn.spec.Tensor(ids[:, :-1].shape, "int64")}}
    with vdla.compile(network.export(spec), target="llvm") as reader:
        states = reader.run({"ids": ids[:, :-1]})["output"][0]
    weights = np.linalg.lstsq(states, np.eye(len(LETTERS))[ids[0, 1:]], rcond=None)[0]
    named = {"head.weight": weights.T, "head.bias": np.zeros(len(LETTERS))}
    network.load_state_dict(named, strict=False)
    return network


def main() -> None:
    """Print how the network continues a prompt, and the cycles of one layer on the accelerator."""
    network = fitted()
    model = network.export(spec={"forward": {"ids": nn.spec.Tensor((1, "sequence"), "int64")}})
    text = SENTENCE[:7]
    # A prompt is padded to one of few lengths for which there are programs, up to twice as long.
    lengths = {"sequence": (len(text), LONGEST)}
    with vdla.compile(model, target="llvm", lengths=lengths, tolerance=1.0) as gpt:
        while len(text) < len(SENTENCE):
            ids = np.array([[LETTERS.index(letter) for letter in text]])
            text += LETTERS[gpt.run({"ids": ids})["output"][0, -1].argmax()]
    print(text)

    vta = vdla.config("vta")
    machine = vdla.config(vta, name="vta with rows", extensions=(*vta.extensions, "rows"))
    states = np.random.default_rng(0).standard_normal((8, 32, WIDTH)).astype(np.float32)
    layer = network.layers[0].export(spec={"forward": {"x": nn.spec.Tensor((1, 32, WIDTH))}})
    quantized = vdla.quantize(layer, {"x": states}, whole=True)
    report = vdla.simulate(vdla.compile(quantized.content, config=machine), {"x": states[:1]})
    with vdla.compile(layer, target="llvm") as processor:
        exact = processor.run({"x": states[:1]})["output"]
    noise = np.sqrt(np.mean((report.outputs["output"] - exact) ** 2) / np.mean(exact**2))
    print(f"a layer on {machine.name}, 32 letters: {report.cycles:,} cycles, error {noise:.1%}")
    for row in report.rows():
        print(f"  {row['name']:26} {row['cycles']:7,} cycles")


if __name__ == "__main__":
    main()
