"""`diagnose tune`: measure a job again and again, each time with one more change, until none helps."""
