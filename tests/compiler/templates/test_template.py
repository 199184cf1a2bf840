"""The template protocol: the default point of a space, and the table of templates of a target."""

import numpy as np
import pytest

from vdla.compiler.templates.columns import ESTIMATE, Columns
from vdla.compiler.templates.cpu import lower
from vdla.compiler.templates.cpu.table import template_named as cpu_template
from vdla.compiler.templates.space import Axis, CostEstimates, EmptySpaceError, Space
from vdla.compiler.templates.template import Template, cheapest, table_of
from vdla.compiler.templates.vdla.template import TEMPLATES, template_named


def made_up(candidates, *, most: int = 20) -> Space:
    """A space of rows (1 to 8) and copies (1 to 4) whose estimated cost falls with both. Their product is at most
    `most` in a legal point, and at most 4 within the limits of searches. `candidates`: the space's field of that name.
    """

    def cost(points: Columns) -> CostEstimates:
        work = points["rows"] * points["copies"]
        return CostEstimates(
            limits={"the memory": work <= most},
            search_limits={"the patience": work <= 4},
            bound=np.ones(len(work)),
            quantities={ESTIMATE: 100.0 - 2 * points["rows"] - points["copies"]},
            effective=points,
        )

    axes = (Axis(name="rows", values=tuple(range(1, 9))), Axis(name="copies", values=(1, 2, 3, 4)))
    return Space(template="made up", axes=axes, cost=cost, floor=1.0, slack=2.0, candidates=tuple(candidates))


def test_the_default_is_the_least_cost_over_the_candidates():
    assert cheapest(made_up([{"rows": (1, 2, 4, 8)}])) == {"rows": 8, "copies": 2}
    assert cheapest(made_up([{}])) == {"rows": 8, "copies": 2}
    assert cheapest(made_up([{"rows": (1, 2)}])) == {"rows": 2, "copies": 4}


def test_a_later_group_counts_where_no_point_of_an_earlier_one_is_legal():
    groups = [{"rows": (5, 6), "copies": (4,)}, {"copies": (2,)}]
    assert cheapest(made_up(groups, most=20)) == {"rows": 5, "copies": 4}
    assert cheapest(made_up(groups, most=19)) == {"rows": 8, "copies": 2}


def test_bounds_on_axes_leave_groups_out():
    groups = [{"copies": (4,)}, {"copies": (3,)}, {"copies": (1,)}]
    assert cheapest(made_up(groups), {"copies": 3}) == {"rows": 6, "copies": 3}
    assert cheapest(made_up(groups), {"copies": 2, "rows": 5}) == {"rows": 5, "copies": 1}


def test_a_space_in_which_nothing_fits_names_the_limit():
    with pytest.raises(
        EmptySpaceError, match="made up: no setting of the knobs respects the limit of the memory"
    ):
        cheapest(made_up([{}], most=0))


def test_names_in_a_table_are_unique():
    template = Template(name="a", space=lambda target, workload: made_up([{}]), schedule=lambda *_: None)
    assert template.default(None, None) == {"rows": 8, "copies": 2}
    assert dict(table_of(template)) == {"a": template}
    with pytest.raises(ValueError, match="two templates are called 'a'"):
        table_of(template, template)


def test_rows_that_import_on_need_name_functions_and_templates_that_exist():
    assert [template_named(name).name for name in TEMPLATES] == list(TEMPLATES)
    assert cpu_template("sketch_cpu").name == "sketch_cpu"
    with pytest.raises(KeyError):
        cpu_template("conv2d")
    assert all(callable(lower.schedule_at(place)) for place in lower.KERNELS.values())
