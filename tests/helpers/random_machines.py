"""Random valid machines (accelerator configurations): presets, and small machines of the random generator in verify/,
with random changes of their fields. They include machines that co-simulation does not run.
"""

from __future__ import annotations

from dataclasses import fields, replace
from random import Random

from vdla.isa.config import PRESETS, Config, load_config
from vdla.isa.errors import ConfigError
from vdla.isa.extensions import EXTENSIONS
from vdla.verify.random_programs import random_config


def random_machine(seed: int) -> Config:
    """A random valid machine (accelerator configuration); always the same for a seed."""
    random = Random(seed)
    while True:
        base = random_config(seed) if random.random() < 0.4 else load_config(random.choice(sorted(PRESETS)))
        try:
            return replace(_changed(random, base), name=f"random machine {seed}")
        except ConfigError:
            continue


def _changed(random: Random, base: Config) -> Config:
    machine = {name: _number(random, getattr(base, name)) for name in _drawn(random, base, 6)}
    if random.random() < 0.3:
        share = random.choice([0.2, 0.5, 0.9])
        machine["extensions"] = tuple(name for name in EXTENSIONS if random.random() < share)
    memory = {name: _number(random, getattr(base.memory, name)) for name in _drawn(random, base.memory, 2)}
    changed = replace(base, **machine)
    return changed.with_memory(replace(changed.memory, **memory)) if memory else changed


def _drawn(random: Random, values: object, most: int) -> list[str]:
    names = [item.name for item in fields(values) if type(getattr(values, item.name)) is int]  # type: ignore[arg-type]
    return random.sample(names, random.randint(1, most))


def _number(random: Random, value: int) -> int:
    near = (value * 2, value // 2, value * 4, value // 4, value + 1, value - 1, value * 3, value // 3)
    return random.choice([*near, 1, 2, 3, 1 << random.randrange(22), random.randrange(1, 5000)])
