"""Metadata store on one SQLite file, for the processes of one machine."""
