"""Forks of a log: how they are made, and what they share."""
