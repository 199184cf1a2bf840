"""The parts of the toolkit that users see: the command line, the Python API, reports and plots, exploration, and the
models that ship with it.
"""
