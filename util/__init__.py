"""Modules that all other folders import: files, caches, processes, and the exception for mistakes of users."""
