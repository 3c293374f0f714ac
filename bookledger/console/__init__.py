"""The web console of a cluster: server-rendered pages for people, read-only."""
