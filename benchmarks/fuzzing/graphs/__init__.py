"""Random valid graphs over every operator of the importers' tables, with the values that each tensor should have."""
