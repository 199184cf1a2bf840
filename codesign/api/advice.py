"""Changes of a machine that would make a network faster: `vdla.advise`."""

from __future__ import annotations

from pathlib import Path

from vdla.compiler.frontends.sources import model_source
from vdla.isa.config import Config
from vdla.util.errors import UserError

from ..explore.advice import LEAST_SAVED, Advice, Trial
from ..explore.advice import advise as advise_network
from ..explore.networks import load_network
from ..technology.components import load_components
from .configurations import config as named
from .models import Model


def advise(
    model: Model,
    config: Config | str | Path = "vta",
    *,
    least: float = LEAST_SAVED,
    technology: str | Path | None = None,
) -> Advice:
    """Changes of a machine that would make a quantized network faster: extensions, larger memories, a wider bus.

    Each change has the exact cycles of the changed machine (by compiling and simulating the network on it), its latency
    at the changed machine's clock, and the area that it adds. Clock and area come from the shipped models, or from the
    table of components that `technology` names. `least` is a share from 0 up to 1: a change is listed only if it saves
    at least this share of the latency.

    If the machine cannot run the whole network, the advice names the extensions that it needs, and starts from the
    machine with these extensions. Raises UserError if the network could not run even with all extensions.
    """
    if not 0 <= least < 1:
        raise UserError(
            f"least is {least:g}; give the smallest saving to report, a share of the latency from 0 to 1 such as 0.03"
        )
    trial = Trial(network=load_network(model_source(model).source), components=load_components(technology))
    return advise_network(named(config), trial, least)
