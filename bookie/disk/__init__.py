"""File access, free-space checks and the disk reserve."""
