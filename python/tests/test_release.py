"""The scripts of a release, without a build and without the network: what they find wrong in made-up files."""

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tarfile

import pytest

from conftest import ROOT

PROGRAMS = ("hir-lit", "hir-lsp", "hir-opt", "hir-reduce", "hir-run")
TEXTS = ("CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "LICENSE-THIRD-PARTY", "NOTICE", "README.md")
# Says what a right program says, of all that is asked, with the right exit status.
RIGHT = """#!/bin/sh
echo '9.8.7 relu(x) H0701 gelu "capabilities"'
case "$*" in *race.hir* | *tests/bad*) exit 1 ;; esac
"""


def write_checksums(folder):
    """Checksums of all files in a folder."""
    names = sorted(path.name for path in folder.iterdir() if path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (folder / "SHA256SUMS").write_text("".join(lines))


def write_archive(folder, machine, script=RIGHT, without=()):
    """An archive with a script for each program."""
    top = folder / f"hostir-9.8.7-{machine}-linux"
    (top / "bin").mkdir(parents=True)
    for name in TEXTS:
        (top / name).write_text("text\n")
    for name in PROGRAMS:
        path = top / "bin" / name
        path.write_text(script)
        path.chmod(0o755)
    for name in without:
        (top / name).unlink()
    with tarfile.open(f"{top}.tar.gz", "w:gz") as archive:
        archive.add(top, top.name)
    shutil.rmtree(top)
    write_checksums(folder)


def check_release(folder):
    """Runs `check-release` on a folder without a wheel: its exit status and all that it says."""
    command = [sys.executable, str(ROOT / "tools/check-release"), str(folder), "--no-wheel"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_a_right_archive_passes(tmp_path):
    write_archive(tmp_path, os.uname().machine)
    status, said = check_release(tmp_path)
    assert status == 0 and "12 of 12 runs of its programs are right, in an empty environment" in said, said


def test_wrong_programs_fail(tmp_path):
    write_archive(tmp_path, os.uname().machine, RIGHT.replace("exit 1", "exit 0"))
    status, said = check_release(tmp_path)
    assert status == 1 and "10 of 12 runs" in said, said
    assert "hir-run tree/docs/tutorial/race.hir --check-only: exit status 0 (expected 1" in said


def test_archives_are_complete(tmp_path):
    write_archive(tmp_path, os.uname().machine, without=["bin/hir-lsp", "LICENSE-THIRD-PARTY"])
    status, said = check_release(tmp_path)
    assert status == 1 and "/bin/hir-lsp\n" in said and "/LICENSE-THIRD-PARTY\n" in said, said


@pytest.mark.parametrize("machine", ["loongarch64"])
def test_programs_that_cannot_run_here_are_named(tmp_path, machine):
    write_archive(tmp_path, machine)
    status, said = check_release(tmp_path)
    assert status == 0 and f"were not run: there is no QEMU or no system of {machine}" in said, said


def test_checksums_hold(tmp_path):
    write_archive(tmp_path, os.uname().machine)
    sums = (tmp_path / "SHA256SUMS").read_text()
    (tmp_path / "SHA256SUMS").write_text(sums.replace(sums[:8], "00000000") + f"{'0' * 64}  gone.whl\n")
    (tmp_path / "more").touch()
    status, said = check_release(tmp_path)
    assert status == 1
    assert "gone.whl is missing" in said and "more has no checksum" in said and "another checksum than SHA256SUMS says" in said


@pytest.fixture
def drafting(tmp_path):
    """A tree with the script and a changelog, folders of both machines, and a `gh` that writes down its arguments."""
    tree = tmp_path / "tree"
    (tree / "tools").mkdir(parents=True)
    shutil.copy(ROOT / "tools/draft-release", tree / "tools")
    (tree / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\nnew\n\n## [9.8.7]\n\nthis one\n\n## [9.8.6]\n\nold\n")
    for machine in ("x86_64", "aarch64"):
        (tmp_path / machine).mkdir()
        (tmp_path / machine / f"hostir-9.8.7-cp310-abi3-manylinux_2_28_{machine}.whl").write_text(machine)
        write_archive(tmp_path / machine, machine)
    (tmp_path / "bin").mkdir()
    gh = tmp_path / "bin/gh"
    gh.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/arguments\n')
    gh.chmod(gh.stat().st_mode | stat.S_IXUSR)
    return tmp_path


def draft(folder, *arguments):
    """Runs `draft-release` in a tree: its exit status and all that it says."""
    environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    command = [str(folder / "tree/tools/draft-release"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
    return done.returncode, done.stdout + done.stderr


def test_a_draft_has_all_files_and_the_notes_of_its_version(drafting):
    status, said = draft(drafting, "--tag", "v9.8.7", "x86_64", "aarch64")
    assert status == 0, said
    arguments = (drafting / "arguments").read_text().splitlines()
    assert arguments[:5] == ["release", "create", "v9.8.7", "--draft", "--verify-tag"]
    files = [path for path in arguments if "/files/" in path]
    assert [path.rpartition("/")[2] for path in files] == [
        "SHA256SUMS",
        "hostir-9.8.7-aarch64-linux.tar.gz",
        "hostir-9.8.7-cp310-abi3-manylinux_2_28_aarch64.whl",
        "hostir-9.8.7-cp310-abi3-manylinux_2_28_x86_64.whl",
        "hostir-9.8.7-x86_64-linux.tar.gz",
    ]
    folder = drafting / "tree/target/draft-release"
    assert (folder / "notes.md").read_text().split() == ["this", "one"]
    sums = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=folder / "files", capture_output=True, text=True)
    assert sums.returncode == 0 and sums.stdout.count(": OK") == 4


def test_a_dry_run_calls_nothing(drafting):
    status, said = draft(drafting, "--tag", "v9.8.7", "x86_64", "aarch64", "--dry-run")
    assert status == 0 and "gh release create v9.8.7 --draft" in said
    assert not (drafting / "arguments").exists()


def test_drafts_of_parts_are_refused(drafting):
    status, said = draft(drafting, "--tag", "v9.8.7", "x86_64")
    assert status == 1 and "there is no hostir-9.8.7-aarch64-linux.tar.gz" in said
    (drafting / "aarch64/hostir-9.8.7-aarch64-linux.tar.gz").write_text("another")
    status, said = draft(drafting, "--tag", "v9.8.7", "x86_64", "aarch64")
    assert status == 1 and "aarch64 are not those that were made" in said
    assert not (drafting / "arguments").exists()


def test_a_release_has_the_version_of_its_tag():
    done = subprocess.run([str(ROOT / "tools/release"), "--tag", "v9.8.7"], capture_output=True, text=True)
    assert done.returncode == 3 and "the tag is v9.8.7, but Cargo.toml has version" in done.stderr


@pytest.mark.parametrize("name", ["python/build-wheel", "tools/package-crates", "tools/release"])
def test_scripts_say_what_they_take_from_any_folder(tmp_path, name):
    done = subprocess.run([os.path.relpath(ROOT / name, tmp_path), "--unknown"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith(("Makes ", "Packages ")), done.stderr
