"""What an application is told of its client: metrics, and spans. Imported only where it asks for them."""
