"""Metadata in etcd: the store, its watch, and the channel under both."""
