"""What each option of `diagnose fit` and `diagnose scaling` changes in what they print and write."""

from options.of_loading import loading_rows
from options.rows import Row

JOB = "--model llama-3.1-8b --gpu H100 --gpus 8"
WAYS = f"{JOB} --zero 2 --micro-batch 1"
MIXTURE = "--model qwen3-30b-a3b --gpu H100 --gpus 8 --micro-batch 1"
RUNS = "{ladder}/runs.csv"
TABLE = "--table {configurations}/jobs.csv"
RATE = r"rate: (\S+) tokens/s"


def fit(option: str, given: str, rest: str = WAYS, **effect: object) -> Row:
    """A row of `diagnose fit`."""
    return Row("fit", option, given, rest, **effect)  # type: ignore[arg-type]


def scaling(option: str, given: str, reads: str = RUNS, **effect: object) -> Row:
    """A row of `diagnose scaling`."""
    return Row("scaling", option, given, reads, **effect)  # type: ignore[arg-type]


FIT = [
    fit("--model", "--model llama-3.1-8b", "--gpu H100", adds="job: Llama-3.1-8B", codes=(2, 0)),
    fit("--gpu", "--gpu H100", "--model llama-3.1-8b", adds="H100-SXM5-80GB", codes=(2, 0)),
    fit("--gpus", "--gpus 16", "--model llama-3.1-8b --gpu H100", adds="16 x H100-SXM5-80GB on 2 nodes"),
    fit("--nodes", "--nodes 4", adds="on 4 nodes"),
    fit("--seq-len", "--seq-len 4096", adds=", 4096 tokens", takes=", 2048 tokens"),
    fit("--micro-batch", "--micro-batch 1", f"{JOB} --zero 2", adds="batch: 8 sequences", takes="batch: 16 sequences"),
    fit("--accumulation", "--accumulation 3", adds="= 1 x 3 x 8"),
    fit("--global-batch", "--global-batch 64", adds="batch: 64 sequences", takes="batch: 8 sequences"),
    fit("--dtype", "--dtype fp32", adds="2048 tokens, fp32", takes="bf16-mixed"),
    fit("--optimizer", "--optimizer adamw-8bit", changes=r"optimizer states (\S+) GB"),
    fit("--attn", "--attn eager", adds="attn_implementation='eager'"),
    fit("--checkpointing", "--checkpointing full", adds="checkpointing full"),
    fit("--liger", "--liger", adds="use_liger_kernel=True"),
    fit("--no-liger", "--no-liger", f"{JOB} --global-batch 64", adds="no Liger", takes="use_liger_kernel=True"),
    fit(
        "--no-compile",
        "--no-compile",
        f"{JOB} --global-batch 64",
        adds="no torch.compile",
        takes=r"varied: [^:]*torch\.compile",
    ),
    fit("--compile", "--compile", adds="torch_compile=True", changes=RATE),
    fit("--fp8", "--fp8", changes=RATE),
    fit("--dp", "--dp 4", "--model llama-3.2-1b --gpu H100", adds="4 x H100-SXM5-80GB, dp=4"),
    fit("--tp", "--tp 2", JOB, adds="dp=4 tp=2"),
    fit("--pp", "--pp 2", JOB, adds="8 x H100-SXM5-80GB, dp=4 pp=2 DDP"),
    fit("--cp", "--cp 2", f"{JOB} --stack megatron", adds="cp=2"),
    fit("--ep", "--ep 2", f"{MIXTURE} --dp 8 --zero 1 --stack megatron", adds="ep=2"),
    fit("--experts", "--experts grouped", f"{MIXTURE} --dp 8", adds="in grouped products", takes="in a loop"),
    fit("--lora-rank", "--lora-rank 8", adds=r"LoraConfig\(r=8", changes=RATE),
    fit("--lora-targets", "--lora-targets all-linear", beside="--lora-rank 8", adds="LoRA of rank 8 on all-linear"),
    fit("--qlora", "--qlora", beside="--lora-rank 8", adds="weights in 4 bits"),
    fit("--zero", "--zero 3", f"{JOB} --dp 8", adds="8 x H100-SXM5-80GB, dp=8 ZeRO-3"),
    fit("--fsdp", "--fsdp full-shard", f"{JOB} --dp 8", adds="8 x H100-SXM5-80GB, dp=8 ZeRO-3"),
    fit("--stack", "--stack torchtitan", changes="rates: (.*?) on"),
    fit("--calibrate", "--calibrate {diagnosis}/d.json", changes="rates: (.*?) on"),
    fit("--network-gbs", "--network-gbs 1", changes=RATE, beside="--nodes 4"),
    fit("--mfu-as", "--mfu-as megatron", adds="as megatron counts"),
    fit("--json", "--json", adds='"tokens_per_s', takes="memory: "),
    fit("--tokens", "--tokens 10B", adds="bill: 10B tokens in"),
    fit("--gpu-hour-price", "--gpu-hour-price 2", adds="GPU-hours, costs", beside="--tokens 10B"),
    fit("--power-w", "--power-w 700", adds="energy of 700 W for a GPU", beside="--tokens 10B"),
    fit("--pue", "--pue 2", adds="times a PUE of 2", beside="--power-w 500"),
    fit("--kg-per-kwh", "--kg-per-kwh 0.3", adds="kg CO2e", beside="--power-w 500"),
    fit("--deadline", "--deadline 30d", adds="gpus within 30 days: the only size", beside="--tokens 10B"),
    fit("--budget", "--budget 1e6", adds="gpus for 1M: the only size", beside="--tokens 10B --gpu-hour-price 2"),
    fit("--heat-map", "--heat-map", "--model 1b --gpu H100 --gpus 8", adds="heat map: best MFU in %", takes="job: "),
    fit(
        "--html", "--html o.html", "--model 1b --gpu H100 --gpus 8", writes={"o.html": "Best MFU"}, beside="--heat-map"
    ),
    fit("--table", TABLE, "--out o.csv", adds="wrote 1 rows to o.csv", writes={"o.csv": "llama-3.2-1b"}, codes=(2, 0)),
    fit(
        "--ignore-columns",
        "--ignore-columns",
        "--table {configurations}/odd.csv --out o.csv",
        takes="not known: colour",
        adds="wrote 1 rows",
        codes=(3, 0),
    ),
    fit("--out", "--out o.csv", TABLE, writes={"o.csv": "llama-3.2-1b"}, codes=(2, 0)),
]
SCALING = [
    scaling("RUNS", RUNS, "", adds="scaling weak", codes=(2, 0)),
    scaling("--json", "--json", adds='"sizes": \\[', takes="scaling weak"),
    scaling("--up-to", "--up-to 64", takes=r"128\*"),
    scaling("--deadline", "--deadline 12h", adds="deadline: 10B tokens in 12 h: 4 GPUs", beside="--tokens 10B"),
    scaling("--budget", "--budget 1000", adds="budget: 1,000 buys", beside="--gpu-hour-price 2"),
    scaling("--tokens-per-step-per-gpu", "--tokens-per-step-per-gpu 4K", "{ladder}/times.csv", adds="tokens/s"),
    scaling("--global-tokens-per-step", "--global-tokens-per-step 64K", "{ladder}/times.csv", adds="scaling strong: "),
    scaling("--where", "--where stack=a", takes="1 row has no other with the same settings"),
    scaling("--by", "--by seq_len", takes="1 row has no other with the same settings"),
    scaling("--gpu-hour-price", "--gpu-hour-price 2", adds="costs 1 GPU: 6.94"),
    scaling("--power-w", "--power-w 500", adds="energy of 500 W for a GPU by --power-w"),
    scaling("--pue", "--pue 2", adds="times a PUE of 2", beside="--power-w 500"),
    scaling("--kg-per-kwh", "--kg-per-kwh 0.3", adds="kg CO2e", beside="--power-w 500"),
    scaling("--tokens", "--tokens 10B", adds="1 GPU: 10B tokens in"),
    *loading_rows("scaling", "2={gloo-slow-rank}", "1={functions}", told=r" 1 6\.0 ", took=r" 1 1\.0 "),
]
ROWS = [*FIT, *SCALING]
