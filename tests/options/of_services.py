"""Options that need a server: command lines for a Dask cluster, each of two ranks, and what an agent is shown."""

SCHEDULED = {
    "analyze": "{gloo-slow-rank}",
    "compare": "{gloo-healthy} {gloo-slow-rank}",
    "baseline check": "ranks {gloo-slow-rank} --dir {baselines}",
    "baseline save": "ranks {gloo-slow-rank} --dir .",
    "fleet": "{ranks_of_fleet}",
    "scaling": "2={gloo-slow-rank}",
}
OF_DYNOLOG = {("trigger", option) for option in ("--dynolog", "--host", "--pid", "--steps")}  # in test_dynolog
PAIRS = {(command, "--scheduler") for command in SCHEDULED} | {("mcp", "--root")} | OF_DYNOLOG
