"""Modules that every part of the toolkit uses: files, caches, processes, and the exception for a user's mistake."""
