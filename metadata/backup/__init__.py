"""Copies of a cluster's metadata in a file, and what a cluster does when it has come from one."""
