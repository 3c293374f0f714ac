"""Reads payloads from a file or pipe, and prints them or writes them to files."""
