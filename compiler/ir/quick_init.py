"""A faster `__init__` of frozen dataclasses, for small objects of which a compilation makes millions."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, TypeVar

_C = TypeVar("_C", bound=type)


def quick_init(cls: _C) -> _C:
    """Replaces `__init__` of `cls`, a frozen dataclass with slots, by one that fills the slots directly: half the time
    of `dataclass`'s own.

    A frozen dataclass refuses plain assignments, so its generated `__init__` looks up every field by name with
    `object.__setattr__`. The arguments stay the same. Raises TypeError for unsupported classes: fields without a slot,
    `__post_init__`, default factories and fields that are no arguments.
    """
    names: dict[str, Any] = {}
    positional, keywords = [], []
    for field in fields(cls):
        setter = getattr(cls.__dict__.get(field.name), "__set__", None)
        if setter is None or not field.init or field.default_factory is not MISSING:
            raise TypeError(f"{cls.__name__}.{field.name}: quick_init needs plain fields of slotted classes")
        names[f"set_{field.name}"] = setter
        argument = field.name
        if field.default is not MISSING:
            names[f"default_{field.name}"] = field.default
            argument = f"{field.name}=default_{field.name}"
        (keywords if field.kw_only else positional).append(argument)
    if hasattr(cls, "__post_init__"):
        raise TypeError(f"{cls.__name__}: quick_init would not run its __post_init__; remove one of the two")
    arguments = ", ".join(["self", *positional, *(["*", *keywords] if keywords else [])])
    lines = [f"    set_{field.name}(self, {field.name})" for field in fields(cls)]
    exec("\n".join([f"def __init__({arguments}):", *lines]), names)
    replaced: Any = cls.__init__
    made: Any = names["__init__"]
    made.__qualname__, made.__annotations__ = replaced.__qualname__, replaced.__annotations__
    cls.__init__ = made
    return cls
