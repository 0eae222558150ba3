"""Views shared by text, HTML, Markdown and tables: the diagnosis as words, rows and sentences."""
