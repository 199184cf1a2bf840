"""An LSTM in vdla.nn: weights by name, and one compiled network for sequences of any length.

    pip install -e . && python examples/nn_lstm.py

The network says which of three frequencies a noisy wave has. Its LSTM keeps the weights that vdla.nn draws. Only the
last layer is fitted, by least squares, to the outputs of the LSTM for 300 waves.
"""

import numpy as np

import vdla
from vdla import nn

FREQUENCIES = (0.35, 0.5, 0.7)
UNITS = 48


class Recurrent(nn.Module):
    """An LSTM that reads a wave, and a linear layer that reads the LSTM's states."""

    def __init__(self) -> None:
        self.lstm = nn.LSTM(1, UNITS, batch_first=True)
        self.classifier = nn.Linear(UNITS, len(FREQUENCIES))

    def states(self, wave: nn.Tensor) -> nn.Tensor:
        """Maps `wave` [batch, steps, 1] to the squares of the LSTM's outputs, [batch, steps, UNITS]."""
        outputs, _ = self.lstm(wave)
        return outputs * outputs

    def forward(self, wave: nn.Tensor) -> nn.Tensor:
        """Maps `wave` [batch, steps, 1] to scores of each step, [batch, steps, 3]."""
        return self.classifier(self.states(wave))


def waves(count: int, steps: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy sine waves, float32 [count, steps, 1], and labels [count]: for each wave, the index of its frequency in
    FREQUENCIES.
    """
    random = np.random.default_rng(seed)
    labels = random.integers(0, len(FREQUENCIES), count)
    angles = np.arange(steps) * np.take(FREQUENCIES, labels)[:, None] + random.uniform(
        0, 2 * np.pi, (count, 1)
    )
    noisy = 4 * np.sin(angles) + random.normal(0, 0.7, angles.shape)
    return noisy[..., None].astype(np.float32), labels


def main() -> None:
    """Fit the classifier, then print the share of right answers for new waves of several lengths."""
    network = Recurrent()
    train, labels = waves(300, 40, seed=1)
    spec = {"states": {"wave": nn.spec.Tensor(train.shape)}}
    with vdla.compile(network.export(spec), target="llvm") as reader:
        states = reader.run({"wave": train})["output"].mean(1)
    inputs = np.hstack([states, np.ones((len(states), 1))])
    wanted = np.eye(len(FREQUENCIES))[labels]
    fitted = np.linalg.solve(inputs.T @ inputs + 1e-4 * np.eye(UNITS + 1), inputs.T @ wanted)
    named = {"classifier.weight": fitted[:-1].T, "classifier.bias": fitted[-1]}
    network.load_state_dict(named, strict=False)

    model = network.export(spec={"forward": {"wave": nn.spec.Tensor(("batch", "steps", 1))}})
    with vdla.compile(
        model, target="llvm", batch=200, lengths={"steps": (30, 60)}, tolerance=0.3
    ) as classifier:
        for steps in (30, 43, 60):
            new, labels = waves(200, steps, seed=steps)
            scores = classifier.run({"wave": new})["output"].mean(1)
            print(f"{np.mean(scores.argmax(1) == labels):.1%} of 200 new waves of {steps} steps are right")


if __name__ == "__main__":
    main()
