"""The diagrams of the timing contract (hw/README.md) agree with the simulator."""

import timing_diagrams


def test_the_page_shows_what_the_simulator_does():
    _, shown, _ = timing_diagrams.on_page(timing_diagrams.PAGE.read_text(encoding="utf-8"))
    assert shown == timing_diagrams.diagrams()
