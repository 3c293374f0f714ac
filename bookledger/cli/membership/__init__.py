"""Adds bookies to and removes them from a cluster; shared by several groups of commands."""
