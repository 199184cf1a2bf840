"""TensorFlow Lite models (.tflite) as ONNX models: flatbuffer, tensors, operators by the table `rows.ROWS`."""
