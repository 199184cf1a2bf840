"""Converts TensorFlow Lite models (.tflite) to ONNX models: flatbuffer, tensors, operators by the table `rows.ROWS`."""
