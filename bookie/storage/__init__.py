"""A bookie's storage: the pure core with its rules, log intake, checkpoints, reads and long polls."""
