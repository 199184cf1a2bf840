"""Reports of a simulation for people: layer accounts, tables, plots and the timeline."""
