"""The notices in wheels, without a build and without the network."""

import importlib.machinery
import importlib.util
import zipfile

from conftest import ROOT


def load_command(path):
    """A command, which has no ending, as a module."""
    loader = importlib.machinery.SourceFileLoader(path.name.replace("-", "_"), str(path))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_wheels_have_a_notice_of_each_crate(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "python"))
    command = load_command(ROOT / "python/check-wheel")
    packages = [{"name": name, "version": "1.0.0", "license": "MIT"} for name in ("first", "second")]
    monkeypatch.setattr(command.third_party_notices, "read_metadata", lambda target, manifest: {})
    monkeypatch.setattr(command.third_party_notices, "linked_packages", lambda metadata: packages)
    wheel = tmp_path / "hostir-9.8.7-cp310-abi3-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as opened:
        opened.writestr("hostir-9.8.7.dist-info/licenses/LICENSE-THIRD-PARTY", "\nfirst 1.0.0: MIT\n")
    assert command.notice_problems(wheel, "x86_64-unknown-linux-gnu") == [f"{wheel.name} has no notice of second"]


def test_the_standard_library_has_its_notices(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "python"))
    import third_party_notices as tool

    entry = (
        "<h3>\N{PACKAGE} {name}-1.2.3</h3><p><b>License:</b> MIT</p>"
        "<summary><code>LICENSE</code></summary>\n<pre>\nfor &#60;{name}&#62;</pre>"
    )
    page = "".join(entry.replace("{name}", name) for name in ("cfg-if", "windows-sys"))
    found = tool.standard_library_notices(page, {"cfg_if", "std"})
    assert [(notice.name, notice.licence, notice.texts) for notice in found] == [
        ("cfg-if 1.2.3, in Rust's standard library", "MIT", {"LICENSE": "for <cfg-if>"})
    ]
    text = tool.notices([], found)
    assert "\ncfg-if 1.2.3, in Rust's standard library: MIT\n" in text and "for <cfg-if>" in text
