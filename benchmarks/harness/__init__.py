"""Our speed on processors against the peer's, ONNX Runtime: cases, timing, and the suite of `vdla bench`."""
