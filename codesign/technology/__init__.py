"""Area, clock and energy of a machine (accelerator configuration): by models fitted to syntheses and to replays
(simulations of synthesized netlists on a program's recorded inputs), or by a table of components.
"""
