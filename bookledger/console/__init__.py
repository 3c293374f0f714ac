"""The web console of a cluster: server-rendered, read-only pages for people."""
