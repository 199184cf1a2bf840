"""The importer of ONNX models: the table of operators, the walk over the nodes, and the contexts that it adds to."""
