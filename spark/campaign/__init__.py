"""The simulator's campaign as Spark tasks."""
