"""Checks the arguments of a call against the annotations of the function's parameters, and a network's inputs."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import reprlib
import types
from collections import abc
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

import numpy as np

from .errors import UserError

P = ParamSpec("P")
R = TypeVar("R")

_MOST_ITEMS = 1000
"""Largest number of items checked in a sequence or a mapping. Only the first items of a longer one are checked."""

_NUMBERS: Mapping[type, tuple[type, ...]] = {
    int: (int, np.integer),
    float: (int, float, np.integer, np.floating),
    bool: (bool, np.bool_),
}
"""Classes whose instances are accepted for a parameter annotated int, float or bool, by annotation."""


class _Late:
    """A class in an annotation of `function` that the function's module imports only under TYPE_CHECKING.

    `path`: the dotted name of the class, e.g. ("onnx", "ModelProto"). If the class of a value, or a base class, has the
    same last name, the value is accepted at once; only otherwise is the class at `path` imported.
    """

    def __init__(self, function: Callable[..., Any], path: tuple[str, ...]) -> None:
        self.function, self.path = function, path
        self.__name__ = path[-1]

    def accepts(self, value: object) -> bool:
        return self.path[-1] in [c.__name__ for c in type(value).__mro__] or _fits(self.kind, value)

    @functools.cached_property
    def kind(self) -> Any:
        first, *rest = self.path
        for statement in ast.parse(inspect.getsource(inspect.getmodule(self.function) or builtins)).body:
            if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
                imports = [s for s in statement.body if isinstance(s, ast.Import | ast.ImportFrom)]
                for imported, alias in [(s, alias) for s in imports for alias in s.names]:
                    if (alias.asname or alias.name) == first:
                        return functools.reduce(getattr, rest, self._imported(imported, alias.name))
        return Any

    def _imported(self, statement: ast.Import | ast.ImportFrom, name: str) -> Any:
        if isinstance(statement, ast.Import):
            return import_module(name)
        package = self.function.__module__.rpartition(".")[0]
        return getattr(import_module("." * statement.level + (statement.module or ""), package), name)


def checked(function: Callable[P, R], name: str) -> Callable[P, R]:
    """A wrapper of `function` that raises UserError if an argument is missing, unknown, or does not fit its annotation.

    Unions, literals, and items of sequences and mappings are checked, too. Error messages call the function `name`, and
    call a class in an annotation by its attribute `called` (default: by its `__name__`).
    """
    signature = inspect.signature(function)

    @functools.cache
    def kinds() -> dict[str, Any]:
        return {p.name: _kind(p.annotation, function) for p in signature.parameters.values()}

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise UserError(f"{name}: {error}; its arguments are {', '.join(signature.parameters)}") from None
        for parameter, value in given.items():
            kind = kinds()[parameter]
            match signature.parameters[parameter].kind:
                case inspect.Parameter.VAR_POSITIONAL:
                    each = [(f"{parameter}[{i}]", item) for i, item in enumerate(value)]
                case inspect.Parameter.VAR_KEYWORD:
                    each = list(value.items())
                case _:
                    each = [(parameter, value)]
            for place, item in each:
                if (found := _unfit(kind, item, place)) is not None:
                    raise UserError(f"{name}: {found}")
        return function(*args, **kwargs)

    return call


def _kind(annotation: Any, function: Callable[..., Any]) -> Any:
    """The annotation of a parameter of `function`, evaluated: a class, a tuple of a union's members, a `_Container` or
    a `_Late`."""
    if not isinstance(annotation, str):
        return Any if annotation is inspect.Parameter.empty else annotation
    names: Mapping[str, Any] = function.__globals__  # type: ignore[attr-defined]

    def read(node: ast.expr) -> Any:
        match node:
            case ast.BinOp(left=left, right=right):
                return (read(left), read(right))
            case ast.Subscript(value=value, slice=inner):
                origin = read(value)
                if origin is Literal:
                    return Literal[ast.literal_eval(inner)]
                items = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                return _Container(origin, [read(item) for item in items])
            case ast.Attribute(value=value, attr=attr):
                origin = read(value)
                return (
                    _Late(function, (*origin.path, attr))
                    if isinstance(origin, _Late)
                    else getattr(origin, attr)
                )
            case ast.Constant(value=value):
                return _kind(value, function) if isinstance(value, str) else value
            case ast.Name(id=name):
                known = (names.get(name), getattr(builtins, name, None), getattr(abc, name, None))
                return next((each for each in known if each is not None), _Late(function, (name,)))
        return Any

    return read(ast.parse(annotation, mode="eval").body)


class _Container:
    """The type `origin[items]`; for `Mapping[str, float]`, `items` are str and float."""

    def __init__(self, origin: Any, items: Sequence[Any]) -> None:
        self.origin, self.items = origin, items


def _unfit(kind: Any, value: object, place: str) -> str | None:
    """The error message if `value` is not of type `kind`, else None; `place` names the argument in the message."""
    if _fits(kind, value):
        return None
    # If the container itself has the right kind, the message names the first item that does not fit.
    for option in _options(kind):
        if isinstance(option, _Container) and _fits(option.origin, value):
            for at, item, wanted in _items(option, value):
                if (found := _unfit(wanted, item, f"{place}{at}")) is not None:
                    return found
    words = list(dict.fromkeys(word for option in _options(kind) for word in _words(option)))
    listed = " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
    return f"{place} is {reprlib.repr(value)}, of type {type(value).__name__}; give {listed}"


def _fits(kind: Any, value: object) -> bool:
    options = _options(kind)
    if len(options) != 1:
        return any(_fits(option, value) for option in options)
    (kind,) = options
    match kind:
        case None:
            return value is None
        case _Late():
            return kind.accepts(value)
        case type() if getattr(kind, "_is_protocol", False):
            return all(hasattr(value, name) for name in vars(kind) if not name.startswith("_"))
        case _Container(origin=origin):
            return _fits(origin, value) and all(
                _fits(wanted, item) for _, item, wanted in _items(kind, value)
            )
        case type() if kind is not Any:
            if kind in (Sequence, abc.Collection) and isinstance(value, str | bytes):
                return False
            return isinstance(value, _NUMBERS.get(kind, (kind,)))
    if get_origin(kind) is Literal:
        return isinstance(value, str | int | bool) and value in get_args(kind)
    return True


def _items(kind: _Container, value: Any) -> list[tuple[str, object, Any]]:
    """Lists (place as text, item, type by `kind`) for the items of a sequence, or the keys and values of a mapping."""
    if isinstance(value, Mapping) and len(kind.items) == 2:
        pairs = list(value.items())[:_MOST_ITEMS]
        keys = [(f" ({reprlib.repr(key)})", key, kind.items[0]) for key, _ in pairs]
        return keys + [(f"[{reprlib.repr(key)}]", item, kind.items[1]) for key, item in pairs]
    if not isinstance(value, abc.Sequence) or kind.origin is abc.Callable:
        return []
    if kind.origin is tuple and Ellipsis not in kind.items:
        wanted = list(kind.items)
        if len(value) != len(wanted):
            return [("", value, type(f"tuple of {len(wanted)}", (), {}))]
    else:
        wanted = [kind.items[0]] * min(len(value), _MOST_ITEMS)
    return [(f"[{i}]", item, each) for i, (item, each) in enumerate(zip(value, wanted, strict=False))]


def _options(kind: Any) -> list[Any]:
    """The members of a union, or `kind` alone. NoneType becomes None, a type with items (list[int]) a `_Container`."""
    if isinstance(kind, tuple):
        return [each for member in kind for each in _options(member)]
    if isinstance(kind, types.UnionType) or get_origin(kind) is Union:
        return [each for member in get_args(kind) for each in _options(member)]
    if kind is type(None):
        return [None]
    origin = get_origin(kind)
    if origin is not None and origin is not Literal and not isinstance(kind, _Container):
        return [_Container(origin, get_args(kind))]
    return [kind]


def _words(kind: Any) -> list[str]:
    match kind:
        case None:
            return ["None"]
        case _Late() if not isinstance(kind.kind, type):
            return [word for option in _options(kind.kind) for word in _words(option)]
        case _Container(origin=origin):
            return _words(origin)
    if get_origin(kind) is Literal:
        return [repr(value) for value in get_args(kind)]
    if kind is abc.Callable:
        return ["a function"]
    if (called := getattr(kind, "called", None)) is not None:
        return [called]
    name = getattr(kind, "__name__", str(kind))
    return [f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"]


class InputError(UserError):
    """Raised for an input array that is missing, unknown, or of the wrong shape or type."""


def arrays_by_name(inputs: object) -> Mapping[str, np.ndarray]:
    """The inputs of a caller, if they are a mapping of numpy arrays by name. Raises InputError for anything else."""
    if not isinstance(inputs, Mapping):
        raise InputError(
            f"inputs must be a dictionary of numpy arrays by name, as in {{'x': array}}, not {type(inputs).__name__}"
        )
    for name, array in inputs.items():
        if not isinstance(array, np.ndarray):
            raise InputError(f"input '{name}' must be a numpy array, not {type(array).__name__}")
    return inputs
