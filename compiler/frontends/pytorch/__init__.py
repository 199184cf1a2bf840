"""PyTorch: modules and exported programs as ONNX models, and the backend of torch.compile."""
