"""What each option of the commands that look something up changes in what they print and write."""

from options.rows import Row

PROMISES = {"DIAGNOSE_LEDGER": "on", "DIAGNOSE_DATA_DIR": "{promises}"}
OWN = {"DIAGNOSE_LEDGER": "on", "DIAGNOSE_DATA_DIR": "{forgotten}"}
ROWS = [
    Row("", "--version", "--version", adds="diagnose, version ", codes=(2, 0)),
    Row("doctor", "--json", "--json", adds='"name": "torch"', takes="hook ok"),
    Row("doctor", "--measure", "--measure", adds="those of a GPU are unknown|reaches", takes="hook ok"),
    Row("doctor", "--model", "--model gpt2", "--measure", adds="attention output", takes="square"),
    Row("explain", "NAMES", "data-wait", adds="mechanism: ", codes=(2, 0)),
    Row("explain", "--from", "--from {cpu-slow-loader.json.gz}", "data-wait", adds="yours: "),
    Row("explain", "--rule", "--rule", "data-wait", adds="says: ", takes="mechanism: "),
    Row("explain", "--rules", "--rules {rule}", "data-wait", adds="Our team says that"),
    Row("rules", "--rules", "--rules {rule}", adds="Our team says that the step waits"),
    Row("hardware", "NAME", "h100", adds="capability 9.0"),
    Row("hardware", "--json", "--json", "h100", adds='"devices": \\[', takes="peak: "),
    Row("ledger", "--json", "--json", adds='"promises": 5', takes="all rules 5", variables=PROMISES),
    Row("ledger", "--export", "--export e.json", adds="wrote 5 predictions", writes={"e.json": "data-wait"},
        variables=PROMISES),
    Row("ledger", "--clear", "--clear", adds="pass --yes", codes=(0, 2), variables=PROMISES),
    Row("ledger", "--yes", "--yes", adds="5 predictions forgotten", codes=(2, 0), beside="--clear", variables=OWN),
    Row("schema", "--of", "--of armed", adds='"title": "ArmedRun"'),
    Row("skill", "--force", "--force", adds="wrote ", takes="pass --force", beside="--out {skills}", codes=(3, 0)),
    Row("skill", "--out", "--out skills", adds="wrote skills/diagnose/SKILL.md", takes="name: diagnose",
        writes={"skills/diagnose/SKILL.md": "name: diagnose"}),
    Row("completion", "SHELL", "bash", adds="_diagnose_completion", codes=(2, 0)),
]  # fmt: skip
