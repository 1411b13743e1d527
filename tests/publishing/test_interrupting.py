"""A push that is killed publishes nothing by halves; repeated, it completes without sending again what arrived."""

import os
import signal

import pytest
from loopback_hub import LoopbackHub

REPO = "awm/pushed"


@pytest.fixture
def out(written, audited):
    """A dataset with both splits: five Parquet files."""
    return written("out", *map(audited, ["a_1", "garden_1"]))


def uploads(hub: LoopbackHub) -> list[str]:
    """Large files that arrived."""
    return [t.path for t in hub.traffic if t.path.startswith("/_uploads/") and t.status == 200]


def content(hub: LoopbackHub) -> dict[str, str]:
    return {path: blob.sha256 for path, blob in hub.repo(REPO).head.files.items()}


def check_killed(hub, start, awm_hub, out, *, at: int, of: str = "/") -> None:
    """Kill the push at the request number `at` of those whose path holds `of`, look, push again, and look again."""
    count, process = 0, None

    def kill(method: str, path: str) -> bool:
        nonlocal count
        count += of in path
        if count == at:
            os.kill(process.pid, signal.SIGKILL)
        return count >= at

    hub.interrupt = lambda method, path: process is None or kill(method, path)
    process = start(["-m", "awm_hub", "push", out, REPO, "--tag", "v1", "--json"])
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    repo = hub.repos.get(("dataset", REPO))
    whole = "2 environments: 2 added, 0 changed, 0 removed, 0 unchanged"
    titles = [c.title for c in repo.log("main")] if repo else []
    assert titles in ([], ["initial commit"], [whole, "initial commit"])
    hub.interrupt = lambda method, path: False
    done = awm_hub("push", out, REPO, "--tag", "v1")
    assert done["exit_code"] == 0, done
    repo = hub.repo(REPO)
    assert [c.title for c in repo.log("main")] == [whole, "initial commit"]
    assert repo.refs["refs/tags/v1"] == done["data"]["commit"] == repo.head.id
    assert len(uploads(hub)) == len(set(uploads(hub))) == 5


def test_a_push_killed_between_two_uploads_goes_on_where_it_was(loopback_hub, start, awm_hub, out):
    check_killed(loopback_hub, start, awm_hub, out, at=3, of="/_uploads/")


@pytest.mark.slow
def test_a_push_can_be_killed_at_every_request(loopback_hub, start, awm_hub, out):
    assert awm_hub("push", out, REPO, "--tag", "v1")["exit_code"] == 0
    requests, expected = len(loopback_hub.traffic), content(loopback_hub)
    for number in range(1, requests + 1):
        loopback_hub.repos.clear()
        loopback_hub.objects.clear()
        loopback_hub.traffic.clear()
        check_killed(loopback_hub, start, awm_hub, out, at=number)
        assert content(loopback_hub) == expected
    print(f"\nkilled at each of {requests} requests, and completed")
