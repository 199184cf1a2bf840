"""Einsum by simpler operators: MatMul for two tensors, otherwise a broadcast Mul followed by ReduceSum."""

from __future__ import annotations

from math import prod

import numpy as np

from ....graph.budgets import too_large
from ..attributes import OnnxNode
from ..context import GraphContext
from ..steps import FloatSteps


def einsum_steps(s: FloatSteps) -> None:
    """Adds the ONNX nodes that compute an Einsum."""
    terms, result = _read(s.context, s.node, [s.shape(i) for i in range(len(s.node.inputs))])
    sizes: dict[str, int] = {}
    names: list[str] = []
    for index, letters in enumerate(terms):
        for letter, size in zip(letters, s.shape(index), strict=True):
            if sizes.setdefault(letter, size) != size and 1 not in (size, sizes[letter]):
                s.refuse(
                    f"uses the letter {letter} for axes of different lengths, {sizes[letter]} and {size} elements"
                )
            sizes[letter] = max(sizes[letter], size)
        name, letters = _diagonal(s, s.input(index), letters, s.shape(index))
        terms[index] = letters
        names.append(name)
    # Whether no dimension of size 1 is broadcast.
    whole = (prod(s.shape(i)) >= prod(sizes[c] for c in letters) for i, letters in enumerate(terms))
    pair = len(terms) == 2 and all(whole)
    s.done((_matrix_product if pair else _products)(s, names, terms, result, sizes))


def _read(context: GraphContext, node: OnnxNode, shapes: list[tuple[int, ...]]) -> tuple[list[str], str]:
    """The letters of each input and of the result in an Einsum's equation; an ellipsis becomes letters that the
    equation does not use. Raises InvalidNodeError for an equation that does not fit the inputs' `shapes`.
    """
    text = node.text("equation", "").replace(" ", "")
    given, arrow, result = text.partition("->")
    terms = given.split(",")
    if len(terms) != len(shapes) or not all(set(t.replace("...", "")) <= _LETTERS for t in (*terms, result)):
        context.refuse(
            node, f"its equation '{text}' must have one term of letters for each of its {len(shapes)} inputs"
        )
    spare = [letter for letter in sorted(_LETTERS) if letter not in text]
    widest = 0
    for index, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        extra = len(shape) - len(term.replace("...", "")) if "..." in term else 0
        if extra < 0 or len(term.replace("...", "")) + extra != len(shape) or extra > len(spare):
            context.refuse(
                node,
                f"the term '{term}' of its equation must have one letter for each axis of its input of shape {shape}",
                "export the model again",
            )
        widest = max(widest, extra)
        terms[index] = term.replace("...", "".join(spare[:extra][::-1]))
    dots = "".join(spare[:widest][::-1])
    if not arrow:
        once = [c for c in sorted(set("".join(terms))) if "".join(terms).count(c) == 1 and c not in dots]
        return terms, dots + "".join(once)
    result = result.replace("...", dots)
    if len(set(result)) != len(result) or not set(result) <= set("".join(terms)):
        context.refuse(
            node, f"the result in its equation '{text}' repeats a letter, or has a letter that no input has"
        )
    return terms, result


_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def _diagonal(s: FloatSteps, name: str, letters: str, shape: tuple[int, ...]) -> tuple[str, str]:
    """Takes the diagonal of all axes of a tensor that have the same letter, for each repeated letter. Returns (name,
    letters) of the result, in which no letter is repeated. `name`, `letters` and `shape` describe the tensor.
    """
    for letter in dict.fromkeys(letters):
        while letters.count(letter) > 1:
            i = letters.index(letter)
            j = letters.index(letter, i + 1)
            order = [d for d in range(len(letters)) if d not in (i, j)]
            moved = s.add("Transpose", name, perm=[*order, i, j])
            rest, size = [shape[d] for d in order], shape[i]
            flat = s.add("Reshape", moved, s.constant([*rest, size * size], np.int64))
            name = s.add("Gather", flat, s.constant(np.arange(size) * (size + 1), np.int64), axis=len(rest))
            letters = "".join(letters[d] for d in order) + letter
            shape = (*rest, size)
    return name, letters


def _matrix_product(
    s: FloatSteps, names: list[str], terms: list[str], result: str, sizes: dict[str, int]
) -> str:
    """Adds a MatMul, [batch, rows, depth] by [batch, depth, columns], with transpositions before and after it. Returns
    the result's name. `terms`: the letters of the axes of each tensor in `names`; the MatMul sums over the letters of
    the axis depth. `sizes`: the size of each letter.
    """
    a, b = terms
    for k, (own, other) in enumerate(((a, b), (b, a))):
        alone = [d for d, letter in enumerate(own) if letter not in other and letter not in result]
        if alone:
            names[k] = s.add("ReduceSum", names[k], s.axes(*alone), keepdims=0)
            terms[k] = "".join(letter for d, letter in enumerate(own) if d not in alone)
    a, b = terms
    batch = [c for c in a if c in b and c in result]
    depth = [c for c in a if c in b and c not in result]
    rows, columns = [c for c in a if c not in b], [c for c in b if c not in a]

    def matrix(name: str, own: str, *groups: list[str]) -> str:
        order = [own.index(c) for group in groups for c in group]
        moved = s.add("Transpose", name, perm=order) if order != sorted(order) else name
        shape = [*[sizes[c] for c in groups[0]], *[prod(sizes[c] for c in group) for group in groups[1:]]]
        return s.add("Reshape", moved, s.constant(shape, np.int64))

    product = s.add(
        "MatMul", matrix(names[0], a, batch, rows, depth), matrix(names[1], b, batch, depth, columns)
    )
    made = [*batch, *rows, *columns]
    full = s.add("Reshape", product, s.constant([sizes[c] for c in made], np.int64))
    order = [made.index(c) for c in result]
    return s.add("Transpose", full, perm=order) if order != sorted(order) else full


def _products(s: FloatSteps, names: list[str], terms: list[str], result: str, sizes: dict[str, int]) -> str:
    """Adds nodes that broadcast all tensors `names` to one shape with an axis for each letter, multiply them, and sum
    over the letters that `result` lacks. Returns the result's name. `terms`: for each of `names`, a letter for each
    axis; `sizes`: the size of each letter.
    """
    made = result + "".join(sorted({c for term in terms for c in term} - set(result)))
    if problem := too_large([sizes[c] for c in made], 4):
        s.fail(
            f"multiplies tensors whose product {problem}",
            "write the product as several Einsums of two tensors",
        )
    factors: list[str] = []
    for name, term in zip(names, terms, strict=True):
        order = sorted(range(len(term)), key=lambda d, term=term: made.index(term[d]))
        moved = s.add("Transpose", name, perm=order) if order != sorted(order) else name
        missing = [d for d, c in enumerate(made) if c not in term]
        factors.append(s.add("Unsqueeze", moved, s.axes(*missing)) if missing else moved)
    total = factors[0]
    for factor in factors[1:]:
        total = s.add("Mul", total, factor)
    summed = list(range(len(result), len(made)))
    return s.add("ReduceSum", total, s.axes(*summed), keepdims=0) if summed else total
