"""What fork would break: objects of the parent are refused in a child, and gRPC gets one of its own there."""
