"""Executables: running compiled networks, and saving them in files."""
