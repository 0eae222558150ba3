"""What text, HTML, Markdown and tables share: the diagnosis in the words, rows and sentences that people read."""
