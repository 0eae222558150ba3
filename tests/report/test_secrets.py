"""No secret of a command, an environment or an error leaves the process that saw it; what is no secret stays."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from needs import needs
from report.printed import printed

from diagnose.analysis import analyze
from diagnose.probes.redaction import LEFT_OUT, without_secrets, words_without_secrets
from diagnose.probes.reporting import figures
from diagnose.report.html import About, page
from diagnose.report.markdown import markdown

S = "Pl4nted"  # stands in each planted secret
FORMS = {
    "option": ["--hf-token", f"{S}-1"],
    "option=value": [f"--api_key={S}-2"],
    "variable": [f"WANDB_API_KEY={S}-3"],
    "variable in a shell's text": ["-c", f"export A=1; HF_TOKEN={S}-4 python next.py --password '{S} 4'"],
    "user of a URL": [f"--tracking=https://ada:{S}-5@example.org/x"],
    "query of a URL": ["--data", f"https://example.org/x?part=1&token={S}-6&b=2"],
    "Hydra's override": [f"+wandb.api_key={S}-7"],
    "look of a token": ["--extra", f"hf_{S}abcdefgh", f"ghp_{S}abcdefgh", f"sk-{S}abcdefgh12", f"xoxb-{S}-12345"],
    "AWS and JWT": ["--more", f"AKIA{S.upper()}12345678", f"eyJhbGciOi.{S}abc.{S}def"],
    "private key": [f"--pem=-----BEGIN RSA PRIVATE KEY-----\n{S}\n-----END RSA PRIVATE KEY-----"],
    "JSON": ["--config", json.dumps({"lr": 1, "hub": {"token": f"{S}-11"}})],
    "header": ["--header", f"Authorization: Bearer {S}abc.def"],
    "random word": [f"--x=q7w8e9r1t2y3u4i5{S}o6p7a8s9"],
    "address of a webhook": [f"--hook=https://hooks.slack.com/services/T0/B0/{S}"],
    "definition": [f"-Dpassword={S}-14"],
}
HARMLESS = [
    "--tokenizer gpt2", "--max-tokens 512", "--num_keys 3", "--key-dim 64", "--token_budget 900", "--pad_token <pad>",
    "--token-file /run/t", "--text_key text", "--use_auth_token true", "--eos-token=</s>", "--author ada", "--token 3",
    "--revision=0123456789abcdef0123456789abcdef01234567", "--run=llama-7b-lr3e-4-bs128-2024-01-01-baseline",
    "--data=/data/imagenet/train-00000-of-01024.tar", "--model meta-llama/Meta-Llama-3.1-8B-Instruct",
    "--exp=20241127T120000Z_llama3_8b_fsdp2_bf16_ctx8192", "git@example.org:x/y", "ssh://git@example.org/x",
    "--rdzv_endpoint=host:29500", "optimizer.fused=true", "model.key_dim=64", "--secretary x",
    "--backend hf_transformers", "--suite=sk-learn-models", "--pass 3", "s3://bucket/a@b",
]  # fmt: skip
JOB = """
import sys, torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(40):
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_of_each_form_is_left_out_of_a_command_and_of_a_text(form: str) -> None:
    kept = words_without_secrets(["python", "train.py", *FORMS[form], "--lr", "3"])

    assert S not in str(kept)
    assert S.upper() not in str(kept)
    assert LEFT_OUT in str(kept)
    assert [*kept[:2], *kept[-2:]] == ["python", "train.py", "--lr", "3"]
    assert S not in without_secrets(" ".join(FORMS[form]))


@pytest.mark.parametrize("words", HARMLESS)
def test_what_is_no_secret_stays(words: str) -> None:
    assert words_without_secrets(words.split()) == words.split()
    assert without_secrets(words) == words


def test_a_hostile_text_takes_no_longer_than_a_plain_one_of_its_length() -> None:
    for part in ("a", "a.", "-a ", "://", "sk-", "eyJ", '"', "Bearer ", "http://:"):
        text = part * (8192 // len(part))
        assert len(without_secrets(text)) <= 8 * len(text)  # it ends


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a real run whose command and environment hold a secret of each form."""
    needs("torch")
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "train.py").write_text(JOB)
    planted = [word for words in FORMS.values() for word in words]
    variables = {"HF_TOKEN": f"{S}-env", "NCCL_DEBUG": f"hf_{S}abcdefgh", "DIAGNOSE_LEDGER": "off"}
    written = ["--report", "r.txt", "--html", "r.html", "--markdown", "r.md", "--json", "r.json"]
    command = [sys.executable, "-m", "diagnose", "run", "--out", "run", *written, "--", sys.executable, "train.py"]
    subprocess.run([*command, *planted], cwd=folder, env=os.environ | variables, check=True, capture_output=True)
    return folder


@pytest.mark.capture
@pytest.mark.long
def test_no_file_of_a_run_holds_a_planted_secret(bundle: Path) -> None:
    files = [path for path in bundle.rglob("*") if path.is_file() and path.name != "train.py"]

    assert {"r.txt", "r.html", "r.md", "r.json", "diagnosis.json", "capture-rank0.json"} <= {f.name for f in files}
    for file in files:
        content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        assert S.lower().encode() not in content.lower(), file.name


@pytest.mark.capture
@pytest.mark.long
def test_no_form_of_a_report_holds_one(bundle: Path) -> None:
    answer = analyze(bundle / "run")
    known = json.loads(answer.to_json())

    assert LEFT_OUT in answer.command
    for told in (printed(answer, details=True), page(answer, About("1")), markdown(answer, About("1"))):
        assert S.lower() not in told.lower()
    assert S.lower() not in json.dumps([figures.scalars(known), figures.document(known), figures.line(known)]).lower()


@pytest.mark.capture
@pytest.mark.long
def test_no_answer_of_the_server_for_agents_holds_one(bundle: Path) -> None:
    needs("mcp")
    from integrations.asked import told

    text, failed = told(bundle, "analyze", path="run")

    assert not failed
    assert S.lower() not in text.lower()
