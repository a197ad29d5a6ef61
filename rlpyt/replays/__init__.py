"""Replay: what the ring holds, who chooses from it, and how it outlives the process."""
