"""Where environments step: here, or in a pool of another library."""
