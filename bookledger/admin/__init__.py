"""What operators and their tools ask a daemon over HTTP."""
