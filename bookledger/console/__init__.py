"""The console: a cluster as pages for people, drawn by the server, read-only."""
