"""What every floor uses and no floor owns: files, caches, processes, and the error that stands for a user's mistake."""
