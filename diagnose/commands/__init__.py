"""The commands beside the core: a folder holds all that only one of them needs. The core imports none of them."""
