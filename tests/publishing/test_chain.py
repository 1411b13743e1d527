"""Upstream's release, from its files to the Hub: import, audit, push, one after the other, each as a command.

The chain at scale takes a release of `AWM_HUB_RELEASE_SIZE` environments (200 by default; the real one has 1,000, in
495 MB), and prints the time of each command and its largest memory, which hardly grows with their number.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from upstream_release import BYTES, write_release

REPO = "awm/envs-1k"
SAMPLE = os.environ.get("AWM_HUB_UPSTREAM_SAMPLE")
COUNT = int(os.environ.get("AWM_HUB_RELEASE_SIZE", "200"))
AUDITED = 4
"""Environments of the large release that are audited here: the audit's own tests see to its memory and its pace."""
PEAK_MB = 450

READING = """
import json
import awm_hub as awm
environments = awm.load("awm/envs-1k")
rows = list(environments.values())
print(json.dumps({
    "ids": [r.id for r in rows],
    "provenance": sorted({(r.provenance.source, r.provenance.license) for r in rows}),
    "audited": [r.id for r in rows if r.quality is not None and r.quality.audited_hash == r.content_hash],
}))
"""


@pytest.mark.slow
@pytest.mark.skipif(SAMPLE is None, reason="AWM_HUB_UPSTREAM_SAMPLE names no folder of upstream rows")
@pytest.mark.parametrize(
    ("run", "words", "license"),
    [("official_awm1k", ["--license", "CC-BY-4.0"], "CC-BY-4.0"), ("user_run", [], "unknown")],
)
def test_the_sample_is_published_with_its_findings(run, words, license, awm_hub, run_program, loopback_hub):
    out = "out"
    assert awm_hub("import", "awm1k", Path(str(SAMPLE)) / run, "-o", out, *words)["exit_code"] == 0
    audit = awm_hub("audit", out, "--write-quality", "--fail-on", "never")
    assert audit["exit_code"] == 0, audit
    done = awm_hub("push", out, REPO)
    if license == "unknown":
        assert done["exit_code"] == 1
        assert {r for b in done["data"]["below"] for r in b["reasons"]} == {"its licence is unknown"}
        done = awm_hub("push", out, REPO, "--private")
    assert done["exit_code"] == 0, done
    (found,) = run_program(READING)
    assert found["provenance"] == [[run, license]]
    assert found["audited"] == found["ids"] == done["data"]["changes"]["added"]
    readme = loopback_hub.repo(REPO).head.files["README.md"].data.decode()
    assert f"All {len(found['ids'])} environments were audited" in readme


@pytest.mark.slow
def test_a_release_of_real_size_goes_through_in_bounded_memory(run_program, tmp_path, settings):
    size = write_release(tmp_path / "release", COUNT)
    assert 0.97 < size / (COUNT * BYTES) < 1.03
    chosen = [w for n in range(AUDITED) for w in ("--env", f"shop_{n}")]
    commands = {
        "import": ["import", "awm1k", "release", "-o", "out", "--license", "CC-BY-4.0"],
        "audit": ["audit", "out", *chosen, "--write-quality", "--fail-on", "never"],
        "push": ["push", "out", REPO, "--bar", "none"],
    }
    print(f"\n{COUNT} environments, {size / 2**20:.0f} MB of JSON lines")
    for name, words in commands.items():
        measure(name, words, settings, tmp_path)
    (found,) = run_program(READING)
    assert len(found["ids"]) == COUNT
    assert found["audited"] == [f"shop_{n}" for n in range(AUDITED)]


MEASURING = """
import json, resource, subprocess, sys
done = subprocess.run(sys.argv[2:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(sys.argv[1], "w") as file:
    json.dump([used.ru_maxrss / 1024, used.ru_utime + used.ru_stime], file)
sys.exit(done.returncode)
"""
"""A small program in between: Linux counts the memory of whoever starts a process as the process's own."""


def measure(name, words, settings, folder) -> None:
    """Run a command and print what it took."""
    took = folder / f"{name}.took"
    out, err = folder / f"{name}.json", folder / f"{name}.err"
    began = time.perf_counter()
    argv = [sys.executable, "-c", MEASURING, str(took), sys.executable, "-m", "awm_hub", *words, "--json"]
    with out.open("w") as stdout, err.open("w") as stderr:
        done = subprocess.run(argv, env=settings, cwd=folder, stdout=stdout, stderr=stderr)
    assert done.returncode == 0, err.read_text()[-2000:] + out.read_text()[-2000:]
    assert json.loads(out.read_text())["ok"]
    peak_mb, cpu_s = json.loads(took.read_text())
    print(f"{name}: {time.perf_counter() - began:.0f} s, {cpu_s:.0f} s of CPU, at most {peak_mb:.0f} MB in a process")
    assert peak_mb < PEAK_MB
