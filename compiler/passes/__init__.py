"""Program transformations, one file each, named as a verb; `pipeline.py` runs them in a visible order."""
