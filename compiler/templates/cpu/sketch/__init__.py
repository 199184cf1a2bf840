"""Rule-generated schedules (sketches) for programs on processors that have no template."""
