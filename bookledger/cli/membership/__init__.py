"""Adds bookies to a cluster and removes them from it; shared by several groups of commands."""
