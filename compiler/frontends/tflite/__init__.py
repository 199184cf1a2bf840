"""Converts TensorFlow Lite models (.tflite) to ONNX models: reads the flatbuffer and its tensors, and converts
operators by the table `rows.ROWS`.
"""
