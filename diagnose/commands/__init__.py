"""The commands, outside the core: a folder holds everything that only one of them needs.

The core imports none of them.
"""
