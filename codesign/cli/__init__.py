"""The command line `vdla`: one file a group of commands; `main` turns mistakes into one line and an exit code."""
