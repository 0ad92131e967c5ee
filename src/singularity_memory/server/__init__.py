"""The server: HTTP and MCP in front of a desk."""
