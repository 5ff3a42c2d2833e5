"""Compile once: a new process takes Inductor's graphs, and the regions in them, from an earlier one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from hostir.torch._overlap import kept_regions  # noqa: E402
from hostir.torch._overlap.kept_regions import RegionStore  # noqa: E402

RANKS = Path(__file__).with_name("kept_graph_ranks.py")


def start(folder, name, world=2):
    """The words of the ranks of a new job."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(RANKS.parent)]), "GLOO_SOCKET_IFNAME": "lo"}
    env |= {"HOSTIR_CACHE": str(folder / "hostir"), "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    env.pop("TORCHINDUCTOR_FORCE_DISABLE_CACHES", None)
    commands = [[sys.executable, str(RANKS), str(rank), str(world), str(folder / name)] for rank in range(world)]
    started = [
        subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for command in commands
    ]
    said = [process.communicate(timeout=420) for process in started]
    assert all(process.returncode == 0 for process in started), "\n".join(error[-4000:] for _, error in said)
    return [json.loads(text.splitlines()[-1]) for text, _ in said]


def test_a_second_process_compiles_nothing(tmp_path):
    first = start(tmp_path, "first")
    assert all(one["fused"] == 3 and not one["bypassed"] and not one["restored"] for one in first), first
    second = start(tmp_path, "second")
    print(json.dumps([first[0]["seconds"], second[0]["seconds"]]))
    assert {one["uuid"] for one in (*first, *second)} == {first[0]["uuid"]}
    for one in second:
        # The pass saw no graph; both regions were made of what was kept.
        assert (one["fused"], one["restored"], "pass" in one["seconds"]) == (0, 2, False), second
        assert one["hits"] >= 2 and sum(one["seconds"].values()) < 3, second


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HOSTIR_CACHE", str(tmp_path))
    monkeypatch.setattr(kept_regions, "_opened", {})
    return tmp_path / "regions"


def test_the_identity_is_of_settings_and_content(cache, monkeypatch):
    import hostir.torch as hir

    names = {hir.Overlap(choose="always").uuid(), hir.Overlap().uuid(), hir.Overlap(passes="overlap-lower").uuid()}
    assert len(names) == 3 and None not in names
    monkeypatch.setattr(kept_regions, "_opened", {})
    assert hir.Overlap().uuid() in names, "of another process"
    monkeypatch.setattr(kept_regions, "_versions", lambda: ["other"])
    assert hir.Overlap().uuid() not in names
    monkeypatch.setenv("HOSTIR_CACHE", "0")
    assert hir.Overlap().uuid() is None


def test_what_cannot_be_kept_is_not_found_again(cache, monkeypatch):
    store = kept_regions.open_store(["a"])
    store.write("region_00000000_000000", {"text": "kept"})
    assert RegionStore(store.folder, "").read("region_00000000_000000") == {"text": "kept"}
    assert (store.folder / "identity").exists()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(kept_regions.tempfile, "mkstemp", full)
        store.write("region_11111111_111111", {"text": "lost"})
    assert not (store.folder / "identity").exists()
    monkeypatch.setattr(kept_regions, "_opened", {})
    assert kept_regions.open_store(["a"]).identity != store.identity


@pytest.mark.parametrize("damage", [lambda entry: entry.write_bytes(entry.read_bytes()[:-9]), Path.unlink], ids=["cut", "gone"])
def test_what_needs_a_damaged_region_is_not_found_again(cache, damage):
    store = kept_regions.open_store(["a"])
    store.write("region_00000000_000000", {"text": "kept"})
    store.write("region_11111111_111111", {"text": "kept"})
    kept_regions._opened.clear()
    assert kept_regions.open_store(["a"]).identity == store.identity
    damage(store.folder / "region_00000000_000000.json")
    kept_regions._opened.clear()
    found = kept_regions.open_store(["a"])
    assert found.identity != store.identity and found.read("region_11111111_111111") is None


def test_the_oldest_folders_make_room(cache, monkeypatch):
    monkeypatch.setattr(kept_regions, "MAX_FOLDERS", 2)
    stores = []
    for at in range(4):
        stores.append(kept_regions.open_store([at]))
        os.utime(stores[-1].folder, (at, at))
    assert [store.folder.exists() for store in stores] == [False, False, True, True]


def test_a_folder_of_others_keeps_nothing(cache):
    store = kept_regions.open_store(["a"])
    kept_regions._opened.clear()
    store.folder.chmod(0o777)
    assert kept_regions.open_store(["a"]) is None
