"""The command line `vdla`: one file for each group of commands; `main` turns a user's mistake into one line and an
exit code.
"""
