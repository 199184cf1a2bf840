"""Runs of the tuner: one session for all targets (`session.py`), which asks a target by its protocol (`target.py`)."""
