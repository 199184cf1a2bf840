"""Reports of a simulation: cycles and bytes by layer, tables, plots and the timeline."""
