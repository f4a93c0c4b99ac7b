"""Answer AI agents over the Model Context Protocol. `memreplay mcp` starts this."""
