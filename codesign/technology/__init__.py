"""Area, clock and energy of a machine (accelerator configuration): by models fitted to syntheses and replays, or by a
table of components.
"""
