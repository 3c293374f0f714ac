"""What surrounds the asyncio client in a run: sockets, the store, its users, and what they see."""
