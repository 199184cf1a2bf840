"""Graphs of operators: their data structures, interpreter, printer, memory planning and costs."""
