"""What each option of `diagnose compare` and `diagnose baseline` changes in what they print and write."""

from options.of_loading import STARTED, loading_rows, page_rows
from options.of_run import LEDGER
from options.rows import Row

PAIR = "{cpu-healthy.json.gz} {cpu-slow-loader.json.gz}"
OTHERS = "{synthetic-memory-bound.json.gz} {synthetic-compute-bound.json.gz}"
CHECK = "healthy {cpu-slow-loader.json.gz} --dir {baselines}"
GPU_CHECK = "gpu {synthetic-compute-bound.json.gz} --dir {baselines}"
SAVE = "b {cpu-slow-loader.json.gz} --dir ."
GPU_SAVE = "b {synthetic-compute-bound.json.gz} --dir ."
FUNCTIONS = "b {functions} --dir ."
RANKS = "{gloo-slow-rank}"
EACH = {"b.json": '"each_ns": (.*)'}


def compare(option: str, given: str, reads: str = PAIR, **effect: object) -> Row:
    """A row of `diagnose compare`."""
    return Row("compare", option, given, reads, **effect)  # type: ignore[arg-type]


def check(option: str, given: str, reads: str = CHECK, **effect: object) -> Row:
    """A row of `diagnose baseline check`, which finds the run slower."""
    return Row("baseline check", option, given, reads, **{"codes": (1, 1), **effect})  # type: ignore[arg-type]


def save(option: str, given: str, reads: str = SAVE, **effect: object) -> Row:
    """A row of `diagnose baseline save`, whose file is printed."""
    return Row("baseline save", option, given, reads, **effect)  # type: ignore[arg-type]


COMPARE = [
    compare("BEFORE", "{cpu-healthy.json.gz}", "{cpu-slow-loader.json.gz}", adds=r"\bA \S*cpu-healthy", codes=(2, 0)),
    compare("AFTER", PAIR, "", adds=r"\bB \S*cpu-slow-loader", codes=(2, 0)),
    compare("--json", "--json", adds='"verdict": "worse"', takes="verdict B is "),
    compare("--annotations", "--annotations", adds="::(warning|notice|error) ", takes="verdict B is "),
    *page_rows("compare", PAIR, markdown="slower than A"),
    compare("-o", "-o c.txt", takes="verdict B is ", writes={"c.txt": "^verdict "}),
    compare("--out", "--out c.txt", takes="verdict B is ", writes={"c.txt": "^verdict "}),
    compare("--fail-on-regression", "--fail-on-regression 5%", adds="regression: the step takes", codes=(0, 1)),
    compare("--noise", "--noise 90%", adds=r"90\.0 % run-to-run noise"),
    compare("--tokens-per-step", "--tokens-per-step 4K", OTHERS, adds="tokens/s"),
    compare("--peak-tflops", "--peak-tflops 2000", OTHERS, adds="low-intensity attention"),
    compare("--hbm-gbs", "--hbm-gbs 100", OTHERS, changes="causes .*? (low-intensity .*?|softmax) "),
    compare("--gpu", "--gpu A100-SXM4-80GB", OTHERS, adds="device NVIDIA A100-SXM4-80GB", takes="device NVIDIA H100"),
    compare("--step-range", "--step-range Optimizer", OTHERS, changes="per step (.*?) causes"),
    *loading_rows("compare", "{gloo-healthy} {gloo-slow-rank}", "{functions} {functions}",
                  told=r"per step 6\.0 ms", took=r"per step 1\.0 ms"),
    compare("--no-ledger", "--no-ledger", "{with_a_patch}/a.json {with_a_patch}/b.json", leaves_out="data/*",
            variables=LEDGER),
]  # fmt: skip
BASELINE_CHECK = [
    check("NAME", "healthy", "{cpu-slow-loader.json.gz} --dir {baselines}", adds=r"\bA healthy", codes=(2, 1)),
    check("TRACE", "healthy {cpu-slow-loader.json.gz}", "--dir {baselines}", adds=r"\bB \S*slow-loader", codes=(2, 1)),
    check("--dir", "--dir {baselines}", "healthy {cpu-slow-loader.json.gz}", adds=r"\bA healthy", codes=(3, 1)),
    check("--tolerance", "--tolerance 95%", adds="tolerance of 95 %"),
    check("--noise", "--noise 90%", adds=r"90\.0 % run-to-run noise"),
    check("-q", "-q", takes=" causes cause class A B "),
    check("--quiet", "--quiet", takes=" causes cause class A B "),
    check("--annotations", "--annotations", adds="::error ", takes="verdict B is "),
    *page_rows("baseline check", CHECK, code=1, markdown="slower than A"),
    check("--tokens-per-step", "--tokens-per-step 4K", adds="tokens/s"),
    check("--peak-tflops", "--peak-tflops 2000", GPU_CHECK, adds="low-intensity attention"),
    check("--hbm-gbs", "--hbm-gbs 100", GPU_CHECK, changes="causes .*? (low-intensity .*?|softmax) "),
    check("--gpu", "--gpu A100-SXM4-80GB", GPU_CHECK, adds="NVIDIA A100-SXM4-80GB"),
    check("--step-range", "--step-range Optimizer", GPU_CHECK, changes="per step (.*?) each causes"),
    *loading_rows("baseline check", "ranks {gloo-slow-rank} --dir {baselines}",
                  "functions {functions} --dir {baselines}",
                  told=r"per step 6\.0 ms 6\.0 ms", took=r"per step 6\.0 ms 1\.0 ms", code=1),
]  # fmt: skip
BASELINE_SAVE = [
    save("NAME", "b", "{cpu-slow-loader.json.gz} --dir .", writes={"b.json": "data-wait"}, codes=(2, 0)),
    save("TRACE", "b {cpu-slow-loader.json.gz}", "--dir .", writes={"b.json": "data-wait"}, codes=(2, 0)),
    save("--dir", "--dir d", "b {cpu-slow-loader.json.gz}", writes={"d/b.json": "data-wait"}),
    save("--tokens-per-step", "--tokens-per-step 4K", differs={"b.json": '"tokens_per_step": (.*)'}),
    save("--peak-tflops", "--peak-tflops 2000", GPU_SAVE, differs={"b.json": '"cause": "(.*)"'}),
    save("--hbm-gbs", "--hbm-gbs 100", GPU_SAVE, differs={"b.json": '"cause": "(.*)"'}),
    save("--gpu", "--gpu A100-SXM4-80GB", GPU_SAVE, differs={"b.json": '"device": "(.*)"'}),
    save("--step-range", "--step-range Optimizer", GPU_SAVE, differs={"b.json": '"each_ns": (.*)'}),
    Row("baseline save", "--no-cache", "--no-cache", f"b {RANKS} --dir .", leaves_out="cache/**/*.*", caches=True),
    Row(
        "baseline save", "--jobs", "--jobs 2", f"b {RANKS} --dir .", writes={"started": "one\none\n"}, variables=STARTED
    ),
    save("--low-memory", "--low-memory 1T", FUNCTIONS, differs=EACH),
    save("--python-functions", "--python-functions", FUNCTIONS, differs=EACH, beside="--low-memory 1T"),
]
ROWS = [*COMPARE, *BASELINE_CHECK, *BASELINE_SAVE]
