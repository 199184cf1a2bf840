"""Schedules of a design: what is tried, what is chosen, and how it is made again."""
