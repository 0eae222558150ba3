"""Runs docs/notebook.ipynb and writes its outputs into it: needs nbclient and ipykernel.

The report's page is left out of them, since GitHub shows no frames: it shows the Markdown instead.
"""

from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
NOTEBOOK = HERE / "notebook.ipynb"


def main() -> None:
    """Executes every cell in docs/, as a reader of the repository would."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, resources={"metadata": {"path": str(HERE)}}).execute()
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    for cell in notebook.cells:
        cell.metadata = {}
        for output in cell.get("outputs", []):
            _without_frame(output)
    nbformat.write(notebook, NOTEBOOK)


def _without_frame(output: dict[str, Any]) -> None:
    if "<iframe" in output.get("data", {}).get("text/html", ""):
        del output["data"]["text/html"]


if __name__ == "__main__":
    main()
