"""Functions of the rows for quantized models, and of the rows that quantized and float models share."""
