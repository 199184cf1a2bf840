"""The parts of the toolkit that users see: the command line, reports and plots, and the models that ship with it."""
