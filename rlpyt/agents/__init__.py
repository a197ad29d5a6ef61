"""Agents: what turns a row into an action, and knows nothing of environments or replay."""
