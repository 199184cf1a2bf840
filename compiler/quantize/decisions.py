"""Decisions of quantization for each layer, and the quantized model that results from them.

A layer stays float, or computes on integers. Activations are symmetric int8, or uint8 with a zero point; tensors that
share a scale have the same type. Weights have one scale per output channel, or one per tensor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from vdla.util.errors import UserError

from ..graph.errors import ModelError
from ..graph.int8_convolution import ActivationType, Quantization
from .float_model import FloatModel, names_read
from .plan import PRODUCTS, VIEWS, Plan, plan_quantization
from .write_qdq import QuantizedModel, write_qdq

ACTIVATION_TYPES: tuple[ActivationType, ...] = ("uint8", "int8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A node whose quantization the user or a search can decide. `tensor`: the node's result; `group`: the name of the
    group of tensors that share the result's scale; `weighted`: whether the node has weights.

    A quantized tensor may also be computed by no layer, such as an input of the model. It is then listed as a layer of
    its own, with `operator` ""; only its type can be decided.
    """

    name: str
    operator: str
    tensor: str
    group: str
    weighted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """Decisions for all layers. `floats`: names of layers that stay float. `symmetric`: names of groups of tensors that
    are int8 instead of uint8. `per_tensor`: names of layers whose weights have a single scale.
    """

    floats: frozenset[str] = field(default_factory=frozenset[str])
    symmetric: frozenset[str] = field(default_factory=frozenset[str])
    per_tensor: frozenset[str] = field(default_factory=frozenset[str])

    def choice(self, layer: Layer) -> tuple[str, ...]:
        """The decisions for a layer, as words of `WORDS`."""
        if layer.name in self.floats and layer.operator:
            return ("float",)
        words = ["s8" if layer.group in self.symmetric else "u8"]
        if layer.weighted:
            words.append("per-tensor" if layer.name in self.per_tensor else "per-channel")
        return tuple(words)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calibrated:
    """A calibrated model. It has the plan in which every possible layer computes on integers. For both types of
    activations it has the quantization of each tensor.
    """

    model: FloatModel
    plan: Plan
    grids: Mapping[ActivationType, Mapping[str, Quantization]]

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All layers of the plan (`layers_of`): the nodes and tensors whose quantization users can decide."""
        return layers_of(self.plan)

    def plan_of(self, decisions: Decisions) -> Plan:
        """The plan with the layers `decisions.floats` in float32."""
        if not decisions.floats:
            return self.plan
        return plan_quantization(self.model, decisions.floats, whole=self.plan.whole)

    def grids_of(self, decisions: Decisions) -> dict[str, Quantization]:
        """The quantization of every tensor under these decisions, by tensor name. Tensors that share a scale in the
        original plan keep the same range, even if a layer that stays float now separates them.
        """
        return {
            name: self.grids["int8" if group in decisions.symmetric else "uint8"][name]
            for name, group in self.plan.scale_of.items()
        }

    def canonical(self, decisions: Decisions) -> Decisions:
        """Removes decisions that have no effect. For example, "float" has no effect for an addition between layers on
        integers, because its inputs and its output are rounded in any case.
        """
        floats = decisions.floats
        while idle := self._without_effect(plan := self.plan_of(replace(decisions, floats=floats)), floats):
            floats -= idle
        used = {self.plan.scale_of[name] for name in plan.scale_of}
        return Decisions(
            floats=floats, symmetric=decisions.symmetric & used, per_tensor=decisions.per_tensor - floats
        )

    def _without_effect(self, plan: Plan, floats: Collection[str]) -> set[str]:
        """Names of layers in `floats` for which the decision makes no difference: on integers they would have the same
        result. They have no weights, and all nodes before and after them compute on integers. `plan` computes all of
        `floats` in float.
        """
        rounded, kept = set(self.model.constants), set(self.model.outputs)
        for node in reversed(self.model.nodes):
            if plan.computes(node):
                rounded.update(node.output)
            elif node.op_type not in VIEWS or kept.intersection(node.output):
                kept.update(names_read(node))
        return {
            node.name
            for node, tensor in self.plan.layers
            if node.name in floats
            and not self.plan.has_weights(node)
            and tensor not in kept
            and rounded.issuperset(self.plan.operands[node.output[0]])
        }

    def write(self, decisions: Decisions) -> QuantizedModel:
        """Writes the model in QDQ form under these decisions. Raises ModelError if no product computes on integers, and
        ScaleError if a product of scales is not finite in float32.
        """
        plan = self.plan_of(decisions)
        check_products(self.model, plan)
        grids = self.grids_of(decisions)
        return write_qdq(self.model, plan, grids, per_tensor=decisions.per_tensor)


def check_products(model: FloatModel, plan: Plan) -> None:
    """Raises ModelError if no product with weights computes on integers."""
    if not any(plan.has_weights(node) for node, _ in plan.layers):
        raise ModelError(
            f"{model.source}: there is no layer to quantize: the model needs at least one float32 operator with "
            f"constant weights, of {', '.join(sorted(PRODUCTS))}"
        )


def layers_of(plan: Plan) -> tuple[Layer, ...]:
    """The layers of a plan in the order of the model. Groups of tensors whose scale no layer determines, such as the
    model's inputs, come first.
    """
    layers = tuple(
        Layer(
            name=node.name,
            operator=node.op_type,
            tensor=tensor,
            group=plan.scale_of[tensor],
            weighted=plan.has_weights(node),
        )
        for node, tensor in plan.layers
    )
    written = {layer.group for layer in layers}
    given = [group for group in dict.fromkeys(plan.scale_of.values()) if group not in written]
    return (
        *(Layer(name=name, operator="", tensor=name, group=name, weighted=False) for name in given),
        *layers,
    )


def uniform(layers: Iterable[Layer], activations: ActivationType, *, per_channel: bool) -> Decisions:
    """Equal decisions for all layers: integers with activations of type `activations`, and weight scales per channel or
    per tensor.
    """
    layers = tuple(layers)
    return Decisions(
        symmetric=frozenset(layer.group for layer in layers if activations == "int8"),
        per_tensor=frozenset(layer.name for layer in layers if layer.weighted and not per_channel),
    )


_OPPOSITES = {"u8": "s8", "per-channel": "per-tensor", "float": "quantized"}
WORDS = (*_OPPOSITES, *_OPPOSITES.values())
"""The words with which users decide on a layer: "u8" or "s8" (type of activations), "per-channel" or "per-tensor"
(weight scales), "float" or "quantized".
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """The user's decisions (`chosen`), which the search for better decisions must not change. The other fields say what
    the user has decided. `places`: layers that must be float, or must be on integers. `groups`: groups of tensors that
    must be int8, or must be uint8. `weights`: layers whose kind of weight scales is decided.
    """

    chosen: Decisions = field(default_factory=Decisions)
    places: frozenset[str] = field(default_factory=frozenset[str])
    groups: frozenset[str] = field(default_factory=frozenset[str])
    weights: frozenset[str] = field(default_factory=frozenset[str])

    def over(self, decisions: Decisions) -> Decisions:
        """Returns `decisions`, with the user's decision for everything that the user has decided."""
        chosen = self.chosen
        return Decisions(
            floats=(decisions.floats - self.places) | chosen.floats,
            symmetric=(decisions.symmetric - self.groups) | chosen.symmetric,
            per_tensor=(decisions.per_tensor - self.weights) | chosen.per_tensor,
        )


def fix(source: str, layers: Sequence[Layer], choices: Mapping[str, Collection[str]]) -> Fixed:
    """Parses the user's decisions: words by layer, as in {"conv1": ["float"], "fc": ["u8", "per-channel"]}.

    Raises UserError for unknown layers (naming the model `source`), unknown words, words that do not apply to a
    layer, and words that contradict each other."""
    fixed = Fixed()
    names = {layer.name: layer for layer in layers}
    types: dict[str, tuple[str, str]] = {}
    for name, words in choices.items():
        if name not in names:
            near = get_close_matches(name, names, 1)
            hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(list(names)[:8])}"
            raise UserError(f'{source}: the model has no layer "{name}"; {hint}')
        layer, given = names[name], set(words)
        if unknown := given - set(WORDS):
            raise UserError(
                f'layer "{name}": "{min(unknown)}" is not one of the choices; use {", ".join(WORDS)}'
            )
        for word, other in _OPPOSITES.items():
            if {word, other} <= given:
                raise UserError(f'layer "{name}" cannot be both {word} and {other}')
        if "float" in given and given != {"float"}:
            raise UserError(
                f'layer "{name}" cannot be both float and {min(given - {"float"})}, which is for quantized layers; '
                "give one of the two"
            )
        if not layer.operator and given & {"float", "quantized"}:
            raise UserError(
                f'"{name}" is an input or a constant of the model, so its only choices are u8 and s8; for the '
                "other choices name the layers that read it"
            )
        if not layer.weighted and (scales := given & {"per-channel", "per-tensor"}):
            raise UserError(
                f'layer "{name}" ({layer.operator or "input"}) has no weights to scale {min(scales)}; leave this out'
            )
        for word in given & {"u8", "s8"}:
            before, first = types.setdefault(layer.group, (word, name))
            if before != word:
                raise UserError(
                    f'layers "{first}" and "{name}" share a scale; choose u8 for both or s8 for both'
                )
        fixed = _with(fixed, layer, given)
    return fixed


def _with(fixed: Fixed, layer: Layer, words: set[str]) -> Fixed:
    """`fixed` with the decisions `words` for one more layer."""
    chosen = fixed.chosen
    if words & {"float", "quantized"}:
        fixed = replace(fixed, places=fixed.places | {layer.name})
        chosen = replace(chosen, floats=chosen.floats | ({layer.name} if "float" in words else set()))
    if words & {"u8", "s8"}:
        fixed = replace(fixed, groups=fixed.groups | {layer.group})
        chosen = replace(chosen, symmetric=chosen.symmetric | ({layer.group} if "s8" in words else set()))
    if words & {"per-channel", "per-tensor"}:
        fixed = replace(fixed, weights=fixed.weights | {layer.name})
        names = {layer.name} if "per-tensor" in words else set[str]()
        chosen = replace(chosen, per_tensor=chosen.per_tensor | names)
    return replace(fixed, chosen=chosen)
