"""The machine beside the steps: `sampling` reads GPU and host once a second, `summary` keeps some of what it reads."""
