"""Functions of the rows for float models."""
