"""The version of the package, apart so that any module can state it."""

__version__ = "0.1.0"
