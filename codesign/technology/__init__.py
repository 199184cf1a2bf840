"""Area, clock and energy of a machine: by models fitted to syntheses and replays, or by a table of components."""
