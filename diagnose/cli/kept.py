"""The diagnosis of a run, kept beside its traces: `diagnose run --apply` and other commands read it there."""

from pathlib import Path

from diagnose.cli.whole_file import whole_file
from diagnose.diagnosis import Diagnosis
from diagnose.probes.protocol import DIAGNOSIS


def keep(diagnosis: Diagnosis, folder: Path) -> None:
    """Write the diagnosis into the folder, as `diagnose analyze --json` prints it.

    Raises:
        OSError: it cannot be written.
    """
    with whole_file(folder / DIAGNOSIS) as file:
        file.write(diagnosis.to_json().encode())
