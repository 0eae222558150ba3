"""What each option of `diagnose analyze` changes in what it prints and writes."""

from importlib.util import find_spec

from options.of_loading import loading_rows, page_rows
from options.rows import Row

GPU = "{synthetic-compute-bound.json.gz}"
CPU = "{cpu-slow-loader.json.gz}"
RANKS = "{synthetic-straggler}"
TWO = "{gloo-slow-rank}"
KEPT = {"DIAGNOSE_LEDGER": "on", "DIAGNOSE_DATA_DIR": "{promises}"}
PARQUET = {"t/facts.parquet": "PAR1"} if find_spec("pyarrow") else {}
CRITICAL_PATH = (
    Row("analyze", "--critical-path", "--critical-path", GPU, adds="critical path")
    if find_spec("hta")
    else Row("analyze", "--critical-path", "--critical-path", GPU, adds="HolisticTraceAnalysis", codes=(0, 3))
)


def row(option: str, given: str, reads: str, **effect: object) -> Row:
    """A row of the command."""
    return Row("analyze", option, given, reads, **effect)  # type: ignore[arg-type]


ROWS = [
    row("PATH", CPU, "", adds="verdict data-bound", codes=(2, 0)),
    row("--json", "--json", CPU, adds='"verdict": {', takes="verdict "),
    row("--details", "--details", CPU, adds="assumes", takes="More: --details"),
    row("-q", "-q", CPU, takes="causes host step"),
    row("--quiet", "--quiet", CPU, takes="causes host step"),
    row("--kernels", "--kernels 2", GPU, adds=r"kernels the longest .* \+11 names"),
    CRITICAL_PATH,
    row("--annotations", "--annotations", CPU, adds="::error title=diagnose%3A data-wait", takes="verdict "),
    *page_rows("analyze", CPU, markdown="data-bound"),
    row("--tables", "--tables t", CPU, adds=r"wrote \d+ tables to t", writes={"t/facts.csv": "data_wait", **PARQUET}),
    row("--annotate", "--annotate a.json", CPU, adds="wrote a.json", writes={"a.json": "diagnose"}),
    row("--run", "--run cpu-healthy", "{two_runs}", adds="verdict compute-bound", codes=(3, 0)),
    row("--run", "--run node.pt.trace@1", "{two_windows}", beside="--details",
        adds="steps 2 counted, marked by ProfilerStep: steps 2, 3"),
    row("--rank", "--rank 3", RANKS, adds="steps of rank 3, one of 8"),
    row("--step", "--step 12", GPU, adds="1 counted, .* step 12", beside="--details"),
    row("--rules", "--rules {rule}", CPU, adds="Our team says that the loop waits", beside="--details"),
    row("--flops-per-step", "--flops-per-step 1e12", GPU, changes=r"MFU (\d\S*) %"),
    row("--params", "--params 1e9", GPU, changes=r"MFU (\d\S*) %", beside="--tokens-per-step 4K"),
    row("--seq-len", "--seq-len 4096", "{trainer}", changes=r"MFU (\d\S*) %", beside="--peak-tflops 1"),
    row("--tokens-per-step", "--tokens-per-step 4K", GPU, takes="the tokens of a step are not known",
        beside="--gpu-hour-price 2"),
    row("--peak-tflops", "--peak-tflops 1", CPU, adds=r"MFU .* of a peak of 1\.0 TFLOP/s \(--peak-tflops\)"),
    row("--hbm-gbs", "--hbm-gbs 100", GPU, adds="verdict memory-bound"),
    row("--network-gbs", "--network-gbs 250", "{two_nodes}", adds=r"busbw \S+ GB/s of \d+ GB/s expected",
        beside="--details"),
    row("--gpu", "--gpu B200", GPU, changes=r"bf16 peak \((.*?)\)"),
    row("--step-range", "--step-range Optimizer", GPU, adds="marked by named ranges", takes="marked by ProfilerStep",
        beside="--details"),
    row("--mfu-as", "--mfu-as hf", "{trainer}", changes=r"MFU (\d\S*) %", beside="--peak-tflops 1"),
    row("--gpu-hour-price", "--gpu-hour-price 2", GPU, adds=r"a day of 1 GPU: price 48\.0"),
    row("--power-w", "--power-w 500", GPU, adds=r"a day of 1 GPU: 12\.0 kWh"),
    row("--pue", "--pue 2", GPU, changes=r"a day of 1 GPU: (\S+) kWh", beside="--power-w 500"),
    row("--kg-per-kwh", "--kg-per-kwh 0.5", GPU, adds=r"6\.00 kg CO2e", beside="--power-w 500"),
    row("--tokens", "--tokens 1B", GPU, adds="1B tokens: ", beside="--gpu-hour-price 2 --tokens-per-step 4K"),
    row("--critical-batch", "--critical-batch 512seq", "{batch}", changes='"critical_batch_factor".*?"value": (.*?),',
        beside="--json"),
    row("--mtbf-hours", "--mtbf-hours 1", "{saving}", adds=r"60\.0 min between failures, as stated",
        beside="--details"),
    row("--metrics", "--metrics {monitor}/dcgm.txt", "{batch}", adds="next cool the GPU"),
    row("--torch-trace", "--torch-trace {torch_trace}", "{graphs}", adds="compiled code in one graph",
        beside="--details"),
    *loading_rows("analyze", TWO, "{functions}", told=r"6\.0 ms per step", took="left out 1 event of Python"),
    row("--no-ledger", "--no-ledger", CPU, takes="on this machine 5 of 5 such gains", beside="--details",
        variables=KEPT),
    row("--fail-on", "--fail-on critical", CPU, codes=(0, 1)),
]  # fmt: skip
