"""Blocking sets of logs."""
