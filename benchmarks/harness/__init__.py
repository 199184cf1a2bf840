"""Code that the benchmarks share: cases, timing, peers (the libraries compared with), committed results, tables of the
pages, and the suite of `vdla bench`.
"""
