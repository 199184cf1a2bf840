"""Post-training quantization: from a float32 ONNX model and calibration data to an ONNX model in QDQ form."""
