"""The two errors a user meets: their own mistake, and an environment's."""


class UsageError(ValueError):
    """An option, environment or file that cannot work; the message names value, rule and remedy.

    The command line prints it without a traceback and exits with code 2.
    """


class EnvironmentFault(RuntimeError):
    """An environment broke its contract; the message names environment, step and field."""
