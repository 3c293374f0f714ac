"""Authentication by certificates, and authorization by roles."""
