"""The implementation of the package `vdla`: each module is for one task of users of Python."""
