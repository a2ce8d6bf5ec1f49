"""Tools that other servers answer: RemoteTools over HTTP, and those of MCP servers."""
