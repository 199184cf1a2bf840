"""Records of trials: their fields and files, and their application to compilation."""
