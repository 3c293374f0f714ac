"""Options of interpreters that tests start."""

WARNS_NOT_OF_FORKS = ("-W", "ignore:This process:DeprecationWarning")
"""Since Python 3.12 it says of each fork beside threads that it may deadlock: just that is what is tested."""
