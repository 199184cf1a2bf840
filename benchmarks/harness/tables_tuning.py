"""Table about the tuner for the project's pages: the number of trials that each search needs to come within 2% of the
best known cycles, and the gain of the learned cost model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .page import Document, Row, Table, at
from .searches import SEARCHES


def search_row(name: str) -> Row:
    """The table row of the search `name`, a key of SEARCHES, in benchmarks/tuning.py. It has three figures: the mean
    number of trials until the search has found a schedule within 2% of the best known cycles (geometric over layers);
    this number relative to the tuner's own search ("full"), left out for "full"; and the number of runs that never came
    so close, left out if it is 0.
    """

    def text(document: Document) -> str:
        trials = document.get("geometric_means", {}).get(name)
        if trials is None:
            return "not run yet"
        never = document["unfinished"].get(name, 0)
        more = (
            f"; {never} of {len(document['layers']) * document['runs_each']} runs never reached it"
            if never
            else ""
        )
        ratio = document["fewer_than"].get(name)
        return f"{trials:.1f}" + (f", {ratio:.2f} times the full search's" if ratio else "") + more

    return Row(SEARCHES[name].label, "{0}", (at("tuning_vdla", "summary", then=text),))


def _gain(found: Document, name: str) -> str:
    ratio = found.get("fewer_than", {}).get(name)
    return "not run yet" if ratio is None else f"{ratio:.2f}"


def _enough(strategy: str) -> Callable[[Sequence[Document]], str]:
    """A function that makes a text from the rows of tuning_cpu.json: for each layer, the number of trials that each run
    of `strategy` needs until its kernel has 0.85 of ONNX Runtime's speed. Runs that never reach that are left out;
    "never": no run reaches it.
    """

    def text(rows: Sequence[Document]) -> str:
        layers = dict.fromkeys(row["layer"] for row in rows)
        parts = []
        for layer in layers:
            mine = [row for row in rows if row["layer"] == layer and row["strategy"] == strategy]
            found = [row["to_enough"] for row in mine if row["to_enough"] is not None]
            every = ", ".join(str(trials) for trials in found) or "never"
            parts.append(f"{layer} {every}")
        return "; ".join(parts)

    return text


TUNING = Table(
    headings=(
        "search",
        "trials to within 2% of the best known, geometric mean over C1 to C12 on `vta`, five seeds",
    ),
    note=(
        'Rows with "same first points" begin with the points of the full search, which the template\'s estimate ranks '
        "best. A run that never reached that cost counts with all its trials, so its row is a lower bound."
    ),
    rows=(
        Row(
            "**what the learned model adds over the same start**: trials of random, of genetic search and of the "
            "cost model alone, divided by the full search's",
            "{0}, {1}, {2}",
            tuple(
                at("tuning_vdla", "summary", then=lambda found, name=name: _gain(found, name))
                for name in ("random+first", "genetic+first", "estimate")
            ),
        ),
        *(search_row(name) for name in SEARCHES),
        Row(
            "full, after learning from the other layers: trials without that, divided by trials with it",
            "{0:.1f}",
            (at("tuning_vdla", "summary", "transfer_gain"),),
        ),
        Row(
            "time of a trial, lowering included; time to choose one",
            "{0:.1f} ms; {1:.1f} ms of CPU",
            (at("tuning_vdla", "summary", "trial_ms"), at("tuning_vdla", "summary", "deciding_ms")),
        ),
        *(
            Row(
                f"on a processor, {name}: trials to 0.85 of the peer's speed, seed by seed",
                "{0}",
                (at("tuning_cpu", "summary", then=_enough(name)),),
            )
            for name in ("random", "genetic", "evolution")
        ),
    ),
)
