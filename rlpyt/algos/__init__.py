"""Algorithms: one file each, its loss and its update; options in `options.py`."""
