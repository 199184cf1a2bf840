"""The implementation of the package `vdla`: each module is one thing that a user does from Python."""
