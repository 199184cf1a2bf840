"""The importer of ONNX models: the table of operators, the walk over a model's nodes, and the contexts, which collect
the graph.
"""
