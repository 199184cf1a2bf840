"""Area and energy of a machine from a table of components, each entry with its source."""
