"""Running compiled networks."""
