"""Random valid graphs over every operator of the importers' tables, with the expected value of each tensor."""
