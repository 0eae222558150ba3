"""What each option of the commands that read what a job left changes in what they print and write."""

from importlib.util import find_spec

from options.of_loading import loading_rows, page_rows
from options.rows import Row

HUNG = "{dumps}/hang-missing-rank"
OOM = "{dumps}/synthetic-memory-oom.pickle"
FLEET = "{jobs_of_fleet}"
ODD = "{steps_log}/odd.csv"
PARQUET = {"t/jobs.parquet": "PAR1"} if find_spec("pyarrow") else {}
SERIES = [
    Row("series", "PATHS", "{steps_log}/steps.csv", adds="200 samples", codes=(2, 0)),
    Row("series", "--json", "--json", "{steps_log}/steps.csv", adds='"samples": 200', takes="spread median "),
    Row("series", "--unit", "--unit ms", "{steps_log}/plain.csv", adds=r"median 101\.0 ms", takes="median 101.0 s"),
    Row("series", "--step-column", "--step-column number", ODD, adds="steps 1 to 200", codes=(3, 0),
        beside="--time-column took"),
    Row("series", "--samples-per-step", "--samples-per-step 64", "{steps_log}/samples.csv",
        takes="rows are 64 steps apart"),
    Row("series", "--time-column", "--time-column lap_s", "{steps_log}/steps.csv", changes="median (.*?) per step"),
]  # fmt: skip
HANG = [
    Row("hang", "FOLDER", HUNG, adds="verdict rank 2 is missing", codes=(2, 0)),
    Row("hang", "--earlier", f"--earlier {HUNG}", HUNG, takes="If the job may still move: dump again"),
    Row("hang", "--details", "--details", HUNG, adds=r"wrapper at \S*c10d_logger"),
    *page_rows("hang", HUNG),
    Row("hang", "--json", "--json", HUNG, adds='"verdict": "hung"', takes="verdict rank 2 is missing"),
]
MEMORY = [
    Row("memory", "PATH", OOM, adds="out of memory|out-of-memory", codes=(2, 0)),
    Row("memory", "--details", "--details", "{snapshot}", adds=r"train\.py:30\b"),
    *page_rows("memory", OOM),
    Row("memory", "--json", "--json", OOM, adds='"findings": \\[', takes=" peak "),
]
FLEET_ROWS = [
    Row("fleet", "FOLDER", FLEET, adds="GPU-hours a day are lost", codes=(2, 0)),
    Row("fleet", "--accounting", "--accounting {accounting}/jobs.csv", FLEET, adds="of 600 GPU-hours are lost"),
    Row("fleet", "--hours", "--hours 12h", FLEET, adds="of 108 GPU-hours are lost", takes="GPU-hours a day are lost"),
    Row("fleet", "--gpu-hour-price", "--gpu-hour-price 2", FLEET, adds="cost 129 at the stated prices"),
    Row("fleet", "--diagnoses-only", "--diagnoses-only", FLEET, takes="1 run analysed"),
    Row("fleet", "--details", "--details", "{many_jobs}", adds=" job-00 "),
    *page_rows("fleet", FLEET),
    Row(
        "fleet", "--tables", "--tables t", FLEET, adds=r"wrote \d tables to t", writes={"t/jobs.csv": "job", **PARQUET}
    ),
    Row("fleet", "--json", "--json", FLEET, adds='"jobs": \\[', takes="verdict "),
    *loading_rows("fleet", "{ranks_of_fleet}", "{functions_of_fleet}", told="garbage collection", took=""),
]
WATCH = [
    Row("watch", "RUN", "{armed_logs}/run", adds="^ended: the process ended; step 40; ", codes=(2, 0)),
    Row("watch", "--once", "--once", "{armed_logs}/run", adds="^state ended: the process ended progress step 40 "),
    Row("watch", "--every", "--every 0.1", "{armed_window}/run", changes="(it is being analysed)"),
    Row("watch", "--page", "--page p.html", "{armed_logs}/run", writes={"p.html": "ended: the process ended"}),
    Row(
        "watch",
        "--prometheus",
        "--prometheus w.prom",
        "{armed_logs}/run",
        writes={"w.prom": r'(?m)^diagnose_steps_total\{run="run"\} 40$'},
    ),
    Row(
        "watch",
        "--otlp",
        "--otlp w.jsonl",
        "{armed_logs}/run",
        writes={"w.jsonl": r'^\{"resourceMetrics":.*"name":"diagnose\.steps".*"asDouble":40'},
    ),
]
ROWS = [*SERIES, *HANG, *MEMORY, *FLEET_ROWS, *WATCH]
