"""How a job scales with its GPUs: runs at several sizes in, other sizes with a range out."""
