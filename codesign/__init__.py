"""What a user touches: the command line, reports and plots, and the models that ship with the toolkit."""
