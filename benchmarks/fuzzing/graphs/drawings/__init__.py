"""How nodes of each operator are drawn."""
