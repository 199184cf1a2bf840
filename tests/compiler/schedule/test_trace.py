"""Schedule traces as JSON: they are read back as they were, and invalid texts are refused with the wrong step."""

from __future__ import annotations

import json

import pytest
from primitives import sums

from vdla.compiler.schedule import (
    LegalityError,
    Schedule,
    Step,
    TraceError,
    format_trace,
    replay,
    trace_from_json,
    trace_to_json,
)
from vdla.util.errors import UserError


def test_the_json_form_is_stable():
    s = Schedule(sums())
    s.split("i", 4)
    s.cache_read("A", None, "local")
    text = trace_to_json(s.trace)
    assert text == (
        '{"version": 1, "steps": [\n  ["split", "i", 4],\n  ["cache_read", "A", null, "local"]\n]}\n'
    )
    assert trace_from_json(text) == s.trace
    assert format_trace(s.trace) == 'split("i", 4)\ncache_read("A", null, "local")\n'


def test_an_empty_trace_is_valid():
    assert trace_from_json(trace_to_json(())) == ()


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (
            [["dance", "i"]],
            "step 1 of the trace: there is no scheduling primitive 'dance'; there are: split, fuse",
        ),
        (
            [["split", "i", 4], ["__init__", "i"]],
            "step 2 of the trace: there is no scheduling primitive '__init__'",
        ),
        ([["split", "i"]], "split takes 2 arguments, not 1"),
        ([["split", "i", 4, 5]], "split takes 2 arguments, not 3"),
        ([["split", "i", "4"]], "argument 2 of split is '4', must be an integer"),
        ([["split", "i", True]], "argument 2 of split is True, must be an integer"),
        ([["split", "i", 4.0]], "must be an integer"),
        ([["split", "i", 10**30]], "must be an integer"),
        ([["split", "", 4]], "must be the name of a loop"),
        ([["split", {"i": 1}, 4]], "must be the name of a loop"),
        ([["reorder"]], "reorder takes 1 arguments, not 0"),
        ([["reorder", "i", 3]], "argument 2 of reorder is 3"),
        ([["annotate", "i", "quickly"]], "must be one of serial, unroll"),
        ([["peel", "i", "middle"]], "must be first or last"),
        ([["pack", "A", [[0, 4], [1]], [0, 1, 2]]], "must be a list of [dimension, size]"),
        ([["pack", "A", [[0, 4]], [0, "1"]]], "must be a list of dimensions"),
        ([["tensorize", "j", "dot", [["lanes", None]]]], "must be a list of [name, value]"),
        ([[]], "step 1 of the trace is [], not [primitive, arguments"),
        (["split"], "step 1 of the trace is 'split', not"),
        ([[["split"], "i", 4]], "does not name a primitive"),
        ({"split": 1}, "a trace is a list of steps"),
        ("split", "a trace is a list of steps"),
    ],
)
def test_invalid_steps_are_refused(steps, message):
    with pytest.raises(TraceError) as caught:
        trace_from_json(json.dumps({"version": 1, "steps": steps}))
    assert isinstance(caught.value, UserError)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the trace is not JSON"),
        ("[" * 100_000, "the trace is not JSON"),
        ('{"version": 1, "steps": [["split", "i", NaN]]}', "NaN is not a number that a trace may contain"),
        ('{"version": 1, "steps": [["split", "i", ' + "9" * 5000 + "]]}", "not JSON"),
        ("[]", "an object of version and steps, not []"),
        ('{"version": 2, "steps": []}', "of version 2; this release reads 1"),
        ('{"version": 1}', "an object of version and steps"),
    ],
)
def test_texts_that_are_not_traces_are_refused(text, message):
    with pytest.raises(TraceError, match="trace") as caught:
        trace_from_json(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (("split", "q", 2), "no loop or statement named 'q'; there are: i, j, sum"),
        (("split", "i", 0), "cannot split i into pieces of 0"),
        (("split", "i"), "the trace has an invalid step: split takes 2 arguments"),
        (("program",), "there is no scheduling primitive 'program'"),
        (("cache_read", "Q", None, "local"), "no buffer named 'Q'"),
        (("tensorize", "j", "dot", ()), "the trace uses the intrinsic dot, which was not given"),
    ],
)
def test_steps_that_do_not_apply(step, message):
    head, *rest = step
    with pytest.raises(LegalityError) as caught:
        replay(sums(), [Step(primitive=head, arguments=tuple(rest))])
    assert message in str(caught.value)
