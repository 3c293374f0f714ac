"""Fetching what is missing, and taking over what others lost."""
