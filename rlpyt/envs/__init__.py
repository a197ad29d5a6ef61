"""Environments: making, describing and checking them, and the suites shipped here."""
