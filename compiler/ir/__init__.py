"""Loop IR: immutable expressions and statements, analyses on them, one printed syntax, an interpreter.

Suggested order of reading: types, expr, stmt, visit, affine, bounds, simplify, regions, hash, printer, verify, interp.
"""
