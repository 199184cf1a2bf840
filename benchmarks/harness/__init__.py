"""Code that the benchmarks share: cases, timing, peers, committed results, tables of the pages, and the suite of `vdla
bench`.
"""
