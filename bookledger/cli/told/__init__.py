"""What a person is told: help, sizes, how a command that was stopped goes on, and what an exit code means."""
