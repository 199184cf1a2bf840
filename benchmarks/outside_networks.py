"""Makes ONNX files of torchvision's networks, for `cpu_networks.py --files`: seeded weights, nothing is downloaded.

    python benchmarks/outside_networks.py FOLDER [NAME ...] [--quantize]

Needs torch and torchvision, which nothing else of the project does. `--quantize` also makes FOLDER/q/NAME.onnx with
ONNX Runtime's static quantization (QDQ, uint8 activations, int8 weights by channel, calibrated on two seeded inputs).
torch draws the weights with seed SEED. Files that exist already are not made again.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from vdla.benchmarks.harness.command_line import Given, Option, names_of, run_script
from vdla.benchmarks.harness.quantized import quantize_qdq
from vdla.util.errors import UserError

SEED = 1
"""Seed of the networks' random weights."""
CALIBRATION_SEED = 0
CALIBRATIONS = 2
OPSET = 17
SIZE = 224
"""Rows and columns of an image, except for networks in SIZES."""
SIZES = {"inception_v3": 299, "unet": 256}
CLASSIFIERS = (
    "resnet18",
    "resnet50",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "densenet121",
    "efficientnet_b0",
    "squeezenet1_1",
    "convnext_tiny",
    "mnasnet1_0",
    "alexnet",
    "googlenet",
    "shufflenet_v2_x1_0",
    "regnet_y_400mf",
    "vit_b_16",
    "inception_v3",
    "vgg11",
)
SEGMENTATIONS = {
    "fcn_resnet50": "fcn_resnet50",
    "deeplabv3_mobilenet": "deeplabv3_mobilenet_v3_large",
    "lraspp": "lraspp_mobilenet_v3_large",
}
NAMES = (*CLASSIFIERS, *SEGMENTATIONS, "unet")


def network(name: str) -> Any:
    """The network `name` as a torch module in evaluation mode, with a single output."""
    torch, torchvision = import_module("torch"), import_module("torchvision")

    class Out(torch.nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.m = inner

        def forward(self, x: Any) -> Any:
            return self.m(x)["out"]

    torch.manual_seed(SEED)
    if name == "unet":
        return unet().eval()
    if name in SEGMENTATIONS:
        make = getattr(torchvision.models.segmentation, SEGMENTATIONS[name])
        return Out(make(weights=None, weights_backbone=None)).eval()
    make = getattr(torchvision.models, name)
    return (make(init_weights=True) if name in ("googlenet", "inception_v3") else make()).eval()


def unet(width: int = 16, levels: int = 5) -> Any:
    """A U-Net of `levels` levels; the first level has `width` channels, each further level twice as many as the level
    before.
    """
    torch = import_module("torch")
    nn = torch.nn

    def twice(channels: int, filters: int) -> Any:
        layers: list[Any] = []
        for count in (channels, filters):
            layers += [
                nn.Conv2d(count, filters, 3, padding=1, bias=False),
                nn.BatchNorm2d(filters),
                nn.ReLU(),
            ]
        return nn.Sequential(*layers)

    sizes = [width << level for level in range(levels)]
    pairs = list(pairwise(sizes))

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down = nn.ModuleList([twice(3, width), *(twice(a, b) for a, b in pairs)])
            self.up = nn.ModuleList([nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairs])
            self.conv = nn.ModuleList([twice(b, a) for a, b in pairs])
            self.head, self.pool = nn.Conv2d(width, 2, 1), nn.MaxPool2d(2)

        def forward(self, x: Any) -> Any:
            kept = []
            for level, layer in enumerate(self.down):
                x = layer(self.pool(x) if level else x)
                kept.append(x)
            for level in reversed(range(levels - 1)):
                x = self.conv[level](torch.cat([self.up[level](x), kept[level]], 1))
            return self.head(x)

    return UNet()


def export(name: str, path: Path) -> None:
    """Writes the network `name` as an ONNX file to `path`."""
    torch = import_module("torch")
    size = SIZES.get(name, SIZE)
    torch.onnx.export(
        network(name),
        (torch.zeros(1, 3, size, size),),
        str(path),
        dynamo=False,
        opset_version=OPSET,
        input_names=["x"],
        output_names=["y"],
    )


def quantize(name: str, path: Path, out: Path, size: int | None = None) -> None:
    """Writes the quantized form of the ONNX file `path` to `out`. The network's images have `size` rows and columns
    (None: the size of torchvision's network `name`).
    """
    side = SIZES.get(name, SIZE) if size is None else size
    rng = np.random.default_rng(CALIBRATION_SEED)
    images = (rng.standard_normal((1, 3, side, side)).astype(np.float32) for _ in range(CALIBRATIONS))
    quantize_qdq(path, out, ({"x": image} for image in images))


OPTIONS = (
    Option("folder", "folder to which the ONNX files are written", Path),
    names_of(NAMES, "network"),
    Option("--quantize", "also make quantized files, in FOLDER/q", flag=True),
)


def main(options: Given) -> None:
    warnings.simplefilter("ignore")
    options.folder.mkdir(parents=True, exist_ok=True)
    try:
        for name in options.names or NAMES:
            path = options.folder / f"{name}.onnx"
            if not path.exists():
                export(name, path)
                print(path, flush=True)
            quantized = options.folder / "q" / path.name
            if options.quantize and not quantized.exists():
                quantized.parent.mkdir(exist_ok=True)
                quantize(name, path, quantized)
                print(quantized, flush=True)
    except ImportError as error:
        raise UserError(f"{error}; pip install torch torchvision onnxruntime") from None


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
