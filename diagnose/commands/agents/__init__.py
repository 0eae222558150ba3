"""What `diagnose mcp` serves: commands as the tools of an agent, which reads files in given folders and writes none."""
