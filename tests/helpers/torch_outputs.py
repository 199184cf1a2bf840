"""Writes tests/compiler/frontends/nn/torch_outputs.npz: state dicts and outputs of PyTorch's layers for one input each.

    python tests/helpers/torch_outputs.py        needs PyTorch, which the tests do not

Entries are NAME/input, NAME/output0, NAME/output1 ... and NAME/state/PARAMETER.
"""

from pathlib import Path

import numpy as np

FILE = Path(__file__).parents[1] / "compiler" / "frontends" / "nn" / "torch_outputs.npz"


def main() -> None:
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers = {
        "linear": (nn.Linear(6, 5), (3, 6)),
        "conv2d": (nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2), (2, 4, 7, 7)),
        "batch_norm": (nn.BatchNorm2d(4), (2, 4, 3, 3)),
        "layer_norm": (nn.LayerNorm(6), (2, 3, 6)),
        "rms_norm": (nn.RMSNorm(6), (2, 3, 6)),
        "lstm": (nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True), (2, 5, 3)),
        "gru": (nn.GRU(3, 4, num_layers=2, bidirectional=True), (5, 2, 3)),
        "attention": (nn.MultiheadAttention(8, 2), (5, 3, 8)),
        "max_pool": (nn.MaxPool2d(3, 2, 1), (1, 2, 7, 8)),
        "avg_pool": (nn.AvgPool2d(3, 2, 1), (1, 2, 7, 8)),
        "gelu": (nn.GELU("tanh"), (3, 4)),
    }
    arrays = {}
    for name, (layer, shape) in layers.items():
        layer.eval()
        with torch.no_grad():
            for key, value in layer.state_dict().items():
                if value.dtype.is_floating_point:
                    value.copy_(
                        torch.rand_like(value) + 0.1 if key.endswith("var") else torch.randn_like(value)
                    )
            x = torch.randn(shape)
            if name == "attention":
                mask = nn.Transformer.generate_square_subsequent_mask(len(x))
                outputs = layer(x, x, x, attn_mask=mask, need_weights=False)[:1]
            elif name == "lstm":
                y, states = layer(x)
                outputs = (y, *states)
            else:
                outputs = layer(x) if name == "gru" else (layer(x),)
        arrays[f"{name}/input"] = x.numpy()
        arrays |= {f"{name}/output{number}": value.numpy() for number, value in enumerate(outputs)}
        arrays |= {f"{name}/state/{key}": value.numpy() for key, value in layer.state_dict().items()}
    np.savez_compressed(FILE, **arrays)


if __name__ == "__main__":
    main()
