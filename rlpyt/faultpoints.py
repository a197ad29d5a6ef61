"""Named places where a test can make the program fail; everywhere else they do nothing."""

from collections.abc import Callable

plan: Callable[[str], None] | None = None
"""What a test wants to happen at each place: raise, kill this process, or note the name."""


def faultpoint(name: str) -> None:
    """Mark the place `name`, before the deed it is named after."""
    if plan is not None:
        plan(name)
