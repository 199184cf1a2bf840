"""Random TFLite graphs: a builder that LiteRT runs operator by operator, drawings of operators, and the comparison."""
