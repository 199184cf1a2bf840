"""Where trials run and what they cost: in this process, in worker processes, on other machines."""
