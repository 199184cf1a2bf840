"""Compiles the simulator (numba), 75 s of a core where its code is not kept yet.

Two test processes that need the code at once would each take as long.
"""

from vdla.codesign.network_run import load_simulator


def main() -> None:
    """Simulate one program."""
    load_simulator()


if __name__ == "__main__":
    main()
