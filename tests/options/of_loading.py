"""Options that several commands have in common, each for every command that has it."""

from options.rows import Row

PAGE = r"<!doctype html>"
STARTED = {"PYTHONPATH": "{counting}", "STARTED": "{here}/started"}


def loading_rows(command: str, ranks: str, functions: str, told: str, took: str, code: int = 0) -> list[Row]:
    """How traces are loaded.

    Args:
        command: the words after `diagnose`.
        ranks: what the command reads, of several files.
        functions: the same, of files in which Python functions tell something.
        told: what is printed with those functions.
        took: what is printed without them.
        code: the exit code of the command.
    """
    codes = (code, code)
    return [
        Row(command, "--no-cache", "--no-cache", ranks, leaves_out="cache/**/*.*", caches=True, codes=codes),
        Row(command, "--jobs", "--jobs 2", ranks, writes={"started": "one\none\n"}, variables=STARTED,
            codes=codes),
        Row(command, "--low-memory", "--low-memory 1T", functions, adds=took, takes=told, codes=codes),
        Row(command, "--python-functions", "--python-functions", functions, adds=told, takes=took,
            beside="--low-memory 1T", codes=codes),
    ]  # fmt: skip


def page_rows(command: str, reads: str, code: int = 0, markdown: str = "") -> list[Row]:
    """Pages beside what is printed, which `markdown` is a part of, if the command writes it."""
    codes = (code, code)
    rows = [Row(command, "--html", "--html p.html", reads, adds="wrote p.html", writes={"p.html": PAGE}, codes=codes)]
    if markdown:
        rows += [Row(command, "--markdown", "--markdown p.md", reads, writes={"p.md": markdown}, codes=codes)]
    return rows
