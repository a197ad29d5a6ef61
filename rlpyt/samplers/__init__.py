"""The collection loop."""
