"""The tools of `diagnose mcp`: commands for an agent, which reads files in given folders and writes none."""
