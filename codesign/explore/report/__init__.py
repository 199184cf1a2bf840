"""The report of an exploration: one HTML page that needs no network, pictures for papers, and tables."""
