"""From the file of an ONNX model to a checked model of static shapes, and rewrites of the model itself."""
