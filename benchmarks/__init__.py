"""Measurements, most of them against other libraries ("peers", such as ONNX Runtime): scripts that write the committed
results; `harness` has the code that they share.
"""
