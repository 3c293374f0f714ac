"""Payloads from a file or pipe, and to one: cut from input, printed, kept in files."""
