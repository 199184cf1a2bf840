"""Records of trials: what they hold, their files, and how they are applied and learned from."""
