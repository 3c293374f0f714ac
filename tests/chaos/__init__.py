"""Real bookies and a real etcd that are killed, hung, slowed and wiped under real clients, by seed."""
