"""Processes of a run: how they start, share, wait, watch each other and end."""
