"""Public benchmark tables, which are not part of this project and which a test asks for by file name.

DIAGNOSE_PUBLIC_TABLES names the folder that holds them.
"""

from pathlib import Path

from needs import file_beside

VARIABLE = "DIAGNOSE_PUBLIC_TABLES"


def public_table(name: str) -> Path:
    """The file; the test is skipped where the folder or the file is missing."""
    return file_beside(VARIABLE, name)
