"""Tuning records (knobs and costs of trials): their fields and files, and their application to compilation."""
