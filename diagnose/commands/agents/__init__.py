"""The tools of `diagnose mcp`, with which an agent reads files in given folders and writes none, and its skill."""
