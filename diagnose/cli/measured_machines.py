"""The rates measured on machines of the user's, in a file of the user's alone beside the track record."""

import msgspec

from diagnose.cli.users_data import default_folder, why_off
from diagnose.cli.whole_file import whole_file
from diagnose.hardware.measured import LARGEST_BYTES, MOST_MACHINES, MeasuredMachine, machines_in
from diagnose.trace.ownership import own_file

NAME = "measured.json"


def measured_machines() -> tuple[MeasuredMachine, ...]:
    """The machines that are kept; none if nothing is kept or the file cannot be read. It raises nothing."""
    if why_off():
        return ()
    try:
        with own_file(default_folder() / NAME) as file:
            return machines_in(file.read(LARGEST_BYTES))
    except OSError:
        return ()


def keep(machine: MeasuredMachine) -> str:
    """Keep it in the place of an earlier one of the same host and GPU; return why it is not kept, "" if it is."""
    if why := why_off():
        return why
    others = [one for one in measured_machines() if (one.host, one.device) != (machine.host, machine.device)]
    try:
        folder = default_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with whole_file(folder / NAME) as file:
            file.write(msgspec.json.encode((*others[1 - MOST_MACHINES :], machine)) + b"\n")
        (folder / NAME).chmod(0o600)
    except OSError as error:
        return error.strerror or type(error).__name__
    return ""
