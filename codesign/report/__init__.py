"""From a simulation to something a person reads: layer accounts, tables, plots and the timeline."""
