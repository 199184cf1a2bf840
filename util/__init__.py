"""Modules that every layer of the toolkit uses: files, caches, processes, and the error for a user's mistake."""
