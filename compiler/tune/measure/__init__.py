"""Trials and the backends that run them: this process, worker processes, other machines."""
