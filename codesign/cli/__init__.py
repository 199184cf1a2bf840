"""The command line `vdla`: one file for each group of commands; `main` turns mistakes into one line and an
exit code.
"""
