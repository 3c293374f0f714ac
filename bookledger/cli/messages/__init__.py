"""User-facing texts: help, sizes, how to resume a stopped command, errors, exit codes."""
