"""The compiler: ONNX models and scheduled tensor expressions become code for the accelerator, processors and GPUs."""
