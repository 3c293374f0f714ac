"""Hadoop's own test classes, run against our journal daemons; see README.md."""
