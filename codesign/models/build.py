"""Build a shipped model by name and form, and its sample inputs."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import onnx
from numpy.typing import NDArray

from vdla.util.errors import UserError
from vdla.util.files import write_whole

from .calibrate import calibrate
from .dcgan import CODE, dcgan
from .float_form import write_float
from .language_model import STEPS, UNITS, language_model
from .layers import Network
from .originals import table as originals
from .qdq_form import write_qdq
from .qoperator_form import write_qoperator
from .quantize import quantize
from .samples import calibration_families, sample_images, sample_noise
from .topologies import dqn, mlp, mobilenet, resnet18, resnet50, small_cnn
from .transformers.table import NAMES as TRANSFORMERS
from .transformers.table import build_transformer

Name = Literal["resnet18", "resnet50", "mobilenet", "dqn", "small_cnn", "mlp"]
Form = Literal["u8", "s8", "qop", "float"]

NAMES: tuple[str, ...] = get_args(Name)
FORMS: tuple[str, ...] = get_args(Form)

FloatName = Literal["dcgan", "language_model"]
FLOAT_NAMES: tuple[str, ...] = get_args(FloatName)
"""Names of networks that exist in the form ``float`` only; they run on processors."""

ORIGINALS: tuple[str, ...] = tuple(name for name in originals.NAMES if name not in NAMES)
"""Names of networks published by others, in the form ``float`` as their exporters write them; a quantizer can quantize
them.
"""

# Calibration uses random numbers of its own, so that no seed of a user gives the images seen in calibration.
CALIBRATION_SEED = 2**32 - 1


class UnknownModelError(UserError):
    """Raised for a model's name, form or size that does not exist."""


def _topology(name: str) -> tuple[Callable[[int], Network], int]:
    """The function that builds a network, and the number of its calibration inputs."""
    match name:
        case "resnet18":
            return resnet18, 8
        case "resnet50":
            return resnet50, 8
        case "mobilenet":
            return mobilenet, 8
        case "dqn":
            return dqn, 64
        case "small_cnn":
            return small_cnn, 64
        case "mlp":
            return mlp, 256
        case _:
            raise UnknownModelError(
                f"no shipped model is called {name!r}; choose one of "
                f"{', '.join((*NAMES, *FLOAT_NAMES, *ORIGINALS, *TRANSFORMERS))}"
            )


def build(
    name: str,
    form: str = "u8",
    batch: int = 1,
    seed: int = 0,
    size: int | None = None,
    layers: int | None = None,
    *,
    symbolic: bool = False,
) -> onnx.ModelProto:
    """Return the ONNX model called `name`, with random weights. The same arguments give the same bytes.

    `form` is the form of quantization: ``u8`` (QDQ, uint8 activations), ``s8`` (QDQ, symmetric int8 activations, ReLU
    kept), ``qop`` (QOperator, uint8) or ``float`` (float32, unquantized). Models that are not in `NAMES` only have the
    form ``float``.

    The model has an input ``input`` and an output ``output``, float32 [batch, ...]. Models in `ORIGINALS` call them
    ``x`` and ``y`` instead. For the inputs and outputs of `TRANSFORMERS`, see the functions of `models.transformers`.

    `batch` is the size of the batch axis. `size` is, for `ORIGINALS`, the number of rows and columns of an image; for
    `TRANSFORMERS` it is the number of tokens (of earlier tokens, for a model that decodes). `layers` is the number of
    layers of a model in `TRANSFORMERS`. If `symbolic`, a model in `TRANSFORMERS` accepts any number of tokens that its
    table of positions or its causal mask allows; models that decode cannot be symbolic.

    Raises `UserError` for an unknown name or form, a batch below 1, a negative seed, and a size or a number of layers
    that the network does not accept.
    """
    if form not in FORMS:
        raise UnknownModelError(f"no form is called {form!r}; choose one of {', '.join(FORMS)}")
    if batch < 1:
        raise UnknownModelError(f"a batch of {batch} is impossible; choose 1 or more")
    if seed < 0:
        raise UnknownModelError(f"the seed {seed} is negative; choose 0 or more")
    if size is not None and name in (*NAMES, *FLOAT_NAMES):
        raise UnknownModelError(f"{name} has inputs of a fixed size; leave the size out")
    if layers is not None and name not in TRANSFORMERS:
        raise UnknownModelError(f"{name} has a fixed number of layers; leave the number out")
    if symbolic and (name not in TRANSFORMERS or size is not None):
        raise UnknownModelError(
            f"{name}: with a symbol the sequences have no fixed size; leave the size out"
            if name in TRANSFORMERS
            else f"{name} cannot have a symbolic size, as only transformers can; leave the symbol out"
        )
    if name in FLOAT_NAMES or name in ORIGINALS or name in TRANSFORMERS:
        if form != "float":
            raise UnknownModelError(
                f"{name} exists in the form float only, not {form}; choose the form float"
            )
        if name in TRANSFORMERS:
            return build_transformer(
                name, seed=seed, batch=batch, tokens=size, layers=layers, symbolic=symbolic
            )
        if name in ORIGINALS:
            return originals.build_original(name, batch=batch, seed=seed, size=size)
        return dcgan(seed, batch) if name == "dcgan" else language_model(seed, batch)
    topology, count = _topology(name)
    network = topology(seed)
    calibrated = calibrate(network, calibration_families(network, count, CALIBRATION_SEED), seed)
    network = calibrated.network
    match form:
        case "u8":
            return write_qdq(network, quantize(calibrated, unsigned=True), batch, form)
        case "s8":
            return write_qdq(network, quantize(calibrated, unsigned=False), batch, form)
        case "qop":
            return write_qoperator(network, quantize(calibrated, unsigned=True), batch)
        case _:
            return write_float(calibrated, batch)


def write(path: str | Path, name: str, form: str = "u8", batch: int = 1, seed: int = 0) -> None:
    """Writes the model `name` to the ONNX file `path`; a failure leaves no partial file.

    Raises `UserError` like `build`, or if the file cannot be written.
    """
    write_whole(path, build(name, form, batch, seed).SerializeToString(deterministic=True))


def sample_inputs(name: str, count: int, seed: int = 0) -> NDArray[np.float32]:
    """Return `count` seeded inputs for the model `name`, of the model's default size: float32 [count, *input shape],
    within [-3, 3]. Raises `UserError` for an unknown model, for a transformer, and for a negative seed.
    """
    if seed < 0:
        raise UnknownModelError(f"the seed {seed} is negative; choose 0 or more")
    if name in TRANSFORMERS:
        raise UnknownModelError(
            f"{name} takes tokens, not images or noise; make its inputs with transformers.token_inputs"
        )
    if name in ORIGINALS:
        size = originals.original(name).size
        return sample_noise((3, size, size), count, seed)
    if name in FLOAT_NAMES:
        return sample_noise((CODE,) if name == "dcgan" else (STEPS, UNITS), count, seed)
    topology, _ = _topology(name)
    return sample_images(topology(0), count, seed).astype(np.float32)
