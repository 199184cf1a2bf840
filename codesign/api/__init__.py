"""The implementation of the package `vdla`: one module for each kind of task."""
