"""Runs the simulator's campaign as Spark tasks."""
