"""Whether a usable nsys is there, what it writes of a window, and what `diagnose analyze` makes of it.

nsight.py FOLDER
"""

from __future__ import annotations

import gzip
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from kit import DIAGNOSE, left_s, ran, tell

PLACE = Path("/opt/nvidia")  # where NVIDIA's tools are installed
JOB = """
import torch
place = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)]).to(place)
opt = torch.optim.AdamW(model.parameters(), fused=place == "cuda")
x = torch.randn(512, 1024, device=place)
for _ in range(60):
    model(x).square().mean().backward(); opt.step(); opt.zero_grad()
"""
PROFILE = ("profile", "-t", "cuda,nvtx", "-s", "none", "--cpuctxsw=none", "-f", "true")
EXPORT = ("export", "--type", "sqlite", "--force-overwrite", "true")


def main() -> None:
    """Each nsys that is there, two at most."""
    folder, found = Path(sys.argv[1]), {}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "job.py").write_text(JOB)
    seen = [shutil.which("nsys"), *(map(str, PLACE.rglob("nsys")) if PLACE.is_dir() else ())]
    usable = [each for each in seen if each and os.access(each, os.X_OK) and Path(each).is_file()]
    found["nsys"] = len(usable)
    tell(found)
    for number, nsys in enumerate(usable[:2]):
        if left_s() > 20:
            told = found[f"nsys {number}"] = {"version": ran([nsys, "--version"], 10)["out"].strip()}
            recorded(nsys, folder, number, told)
            tell(found)
            env = {"PATH": f"{Path(nsys).parent}:{os.environ['PATH']}"}
            asked = ("run", "--nsys", "--no-ledger", "--out", str(folder / "run"))
            words = [*DIAGNOSE, *asked, "--", sys.executable, str(folder / "job.py")]
            told["diagnose run --nsys"] = ran(words, min(max(left_s(), 10), 40), env=env)
            tell(found)


def recorded(nsys: str, folder: Path, number: int, told: dict[str, Any]) -> None:
    """A recording, its export, and its analysis, as far as they come."""
    stem = folder / f"report-{number}"
    report, raw, database = (stem.with_suffix(ending) for ending in (".nsys-rep", ".qdstrm", ".sqlite"))
    told["profile"] = ran([nsys, *PROFILE, "-o", str(stem), sys.executable, str(folder / "job.py")], 40)
    told["files"] = {path.name: path.stat().st_size for path in folder.glob(f"{stem.name}*")}
    if raw.is_file() and not report.is_file():
        for importer in list(Path(nsys).parent.parent.rglob("*QdstrmImporter"))[:1]:
            told["import"] = ran([str(importer), "-i", str(raw), "-o", str(report)], 30)
    if report.is_file():
        told["export"] = ran([nsys, *EXPORT, "-o", str(database), str(report)], 40)
    if database.is_file():
        told["analyze"] = ran([*DIAGNOSE, "analyze", str(database)], 30)
        with database.open("rb") as plain, gzip.open(f"{database}.gz", "wb") as packed:
            shutil.copyfileobj(plain, packed)


if __name__ == "__main__":
    main()
