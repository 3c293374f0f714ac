"""Metadata store on etcd: client, watch, channels, credentials, roles."""
