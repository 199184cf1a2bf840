"""Small frozen dataclasses with a faster `__init__`: behaviour that stays the same, and refused classes."""

from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from vdla.compiler.ir.expr import Binary, Const, Var
from vdla.compiler.ir.quick_init import quick_init
from vdla.compiler.ir.stmt import For, Seq
from vdla.compiler.ir.types import DType


@quick_init
@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 2
    name: str = field(default="p", kw_only=True)


def test_arguments_and_defaults_are_those_of_the_dataclass() -> None:
    assert Point(1) == Point(x=1, y=2, name="p")
    assert replace(Point(1), y=5) == Point(1, 5)
    assert hash(Point(3, 4)) == hash(Point(3, 4))
    assert repr(Point(1, name="q")) == "Point(x=1, y=2, name='q')"
    with pytest.raises(TypeError, match=r"Point\.__init__\(\) missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Point(1, 2, "third")  # type: ignore[misc]


@pytest.mark.parametrize(
    ("node", "name"),
    [(Point(1), "x"), (Const(1), "value"), (Var("i"), "name"), (Binary("+", Var("i"), Const(1)), "op")],
)
def test_instances_are_still_frozen(node: object, name: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(node, name, 1)


def test_nodes_of_programs_take_keywords_only() -> None:
    body = Seq(statements=())
    assert For(var=Var("i"), extent=Const(4), body=body).kind == "serial"
    assert Const(4).dtype is DType.INT64
    with pytest.raises(TypeError):
        For(Var("i"), Const(4), body)  # type: ignore[misc]


def test_unsupported_classes_are_refused() -> None:
    with pytest.raises(TypeError, match=r"Listed\.items"):

        @quick_init
        @dataclass(frozen=True, slots=True)
        class Listed:
            items: list[int] = field(default_factory=list)

    with pytest.raises(TypeError, match=r"Loose\.x"):

        @quick_init
        @dataclass(frozen=True)
        class Loose:
            x: int

    with pytest.raises(TypeError, match="__post_init__"):

        @quick_init
        @dataclass(frozen=True, slots=True)
        class Checked:
            x: int

            def __post_init__(self) -> None:
                raise ValueError
