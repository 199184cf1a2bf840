"""Program transformations (passes), one in each file; `pipeline.py` runs the passes that its caller lists, in order."""
