"""Whose a file is: what others may have written is not believed, what is not the user's is not touched."""

import os
import stat as modes

_OTHERS_WRITE = modes.S_IWGRP | modes.S_IWOTH


def is_users_alone(stat: os.stat_result) -> bool:
    """Whether it belongs to the user of this process, and nobody else may write to it."""
    return stat.st_uid == os.geteuid() and not stat.st_mode & _OTHERS_WRITE
