#!/usr/bin/env python3
"""Writes the notices of all that the wheel links: for each crate its licence, and the texts that its authors ship.

    python/third_party_notices.py TARGET [MANIFEST]... > python/LICENSE-THIRD-PARTY

`build-wheel` does so for the extension module, and `tools/release` for programs, by their manifests. Crates are those that cargo
links for a target, `x86_64-unknown-linux-gnu`: no build scripts, macros or tests. A crate without a text of its own gets the ones
of its licence that others ship. Rust's standard library and the crates in it have the texts that the toolchain ships, and what zig
links has zig's, if it is installed beside this Python.
"""

from __future__ import annotations

import html
import importlib.metadata
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).resolve().parent
TEXTS = re.compile(r"(licen[cs]e|copying|notice|copyright|unlicense)", re.IGNORECASE)
LINE = "=" * 100


class Notice(NamedTuple):
    """The notice of one library: its name and version, its licence, where it is from, and texts by the names of their files."""

    name: str
    licence: str
    origin: str
    texts: dict[str, str]


def read_metadata(target: str, manifest: Path) -> dict[str, Any]:
    """Cargo's data about a package and its dependencies."""
    command = ["cargo", "metadata", "--format-version=1", "--locked", f"--filter-platform={target}", f"--manifest-path={manifest}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def linked_packages(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """The packages that are linked and come from elsewhere, by name and version."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    queue, seen = [metadata["resolve"]["root"]], {metadata["resolve"]["root"]}
    while queue:
        for dependency in nodes[queue.pop()]["deps"]:
            is_linked = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            at = dependency["pkg"]
            if is_linked and at not in seen and not is_macro(packages[at]):
                seen.add(at)
                queue.append(at)
    found = [packages[at] for at in seen if packages[at]["source"] is not None]
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def is_macro(package: dict[str, Any]) -> bool:
    """True for code that runs in the compiler."""
    return any("proc-macro" in target["kind"] for target in package["targets"])


def shipped_texts(package: dict[str, Any]) -> dict[str, str]:
    """The licences and notices in a package's folder, by the name of the file; those of C code that it brings, too."""
    folder = Path(package["manifest_path"]).parent
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and len(path.relative_to(folder).parts) <= 4]
    named = [path for path in files if TEXTS.match(path.name) and path.suffix not in {".rs", ".json", ".py"}]
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8", errors="replace").strip() for path in named}


def standard_texts(packages: list[dict[str, Any]]) -> dict[str, str]:
    """A text of each common licence, as some package ships it."""
    found: dict[str, str] = {}
    for package in packages:
        for name, text in shipped_texts(package).items():
            for licence, mark in (("Apache-2.0", "Apache License"), ("MIT", "Permission is hereby granted, free of charge")):
                if mark in text and "/" not in name and len(text) > 500:
                    found.setdefault(licence, text)
    return found


def notice_of(package: dict[str, Any], standard: dict[str, str]) -> Notice:
    """The notice of a package. Raises `ValueError` if neither a text nor a known licence is found."""
    name = f"{package['name']} {package['version']}"
    licence = package["license"] or "see the text"
    texts = shipped_texts(package)
    if not texts:
        known = [one for one in standard if one in licence]
        if not known:
            raise ValueError(f"{name} ({licence}) ships no text of its licence")
        authors = ", ".join(package["authors"]) or f"the authors of {package['name']}"
        texts = {f"{one}, copyright {authors}": standard[one] for one in known[:1]}
    return Notice(name, licence, package["repository"] or "", texts)


def standard_library_notices(page: str, linked: set[str]) -> list[Notice]:
    """The notices of those crates of Rust's standard library that are `linked`, from the toolchain's COPYRIGHT-library.html."""
    found = []
    for part in page.split("<h3>\N{PACKAGE} ")[1:]:
        name, _, version = part.partition("<")[0].rpartition("-")
        licence = re.search(r"<b>License:</b> ([^<]*)<", part)
        texts = re.findall(r"<summary><code>([^<]*)</code></summary>\s*<pre>(.*?)</pre>", part, re.DOTALL)
        if name.replace("-", "_") in linked and licence is not None:
            plain = {file: html.unescape(text).strip() for file, text in texts}
            title, origin = f"{name} {version}, in Rust's standard library", f"https://crates.io/crates/{name}"
            found.append(Notice(title, licence[1], origin, plain))
    return found


def toolchain_notices(target: str) -> list[Notice]:
    """The notices of Rust's standard library for a target, and of what zig links if it is here."""
    root = Path(subprocess.run(["rustc", "--print", "sysroot"], check=True, capture_output=True, text=True).stdout.strip())
    page, licences = root / "share/doc/rust/COPYRIGHT-library.html", root / "share/doc/rust/licenses"
    linked = {path.name[3:].rpartition("-")[0] for path in (root / "lib/rustlib" / target / "lib").glob("lib*-*.rlib")}
    found = standard_library_notices(page.read_text(encoding="utf-8"), linked) if page.is_file() else []
    if found:
        texts = {name: (licences / name).read_text(encoding="utf-8").strip() for name in ("MIT.txt", "Unicode-3.0.txt")}
        found.insert(0, Notice("Rust's standard library", "MIT OR Apache-2.0", "https://github.com/rust-lang/rust", texts))
    zig = importlib.util.find_spec("ziglang")
    for folder in map(Path, zig.submodule_search_locations or [] if zig is not None else []):
        texts = {file: (folder / file).read_text(encoding="utf-8").strip() for file in ("LICENSE", "lib/libunwind/LICENSE.TXT")}
        name = f"zig {importlib.metadata.version('ziglang')}: its compiler-rt, and LLVM's libunwind"
        found.append(Notice(name, "MIT; Apache-2.0 WITH LLVM-exception", "https://ziglang.org", texts))
    return found


def notices(packages: list[dict[str, Any]], more: Sequence[Notice] = ()) -> str:
    """The whole file: packages, then more. Raises `ValueError` for a package without a text or a known licence."""
    standard = standard_texts(packages)
    parts = [
        "This package has programs or a module that are linked with the libraries below, and with Rust's standard library",
        "(MIT OR Apache-2.0, https://github.com/rust-lang/rust). Each is under the licence that stands beside its name.",
    ]
    written: dict[str, str] = {}
    for notice in [*(notice_of(package, standard) for package in packages), *more]:
        parts += ["", LINE, f"{notice.name}: {notice.licence}", notice.origin, LINE]
        for file, text in notice.texts.items():
            first = written.setdefault(text, f"{notice.name}, {file}")
            parts += ["", f"--- {file}", "", text if first == f"{notice.name}, {file}" else f"The text is that of {first}."]
    return "\n".join(parts) + "\n"


def main() -> int:
    """Writes the notices to standard output."""
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    manifests = [Path(text) for text in sys.argv[2:]] or [FOLDER / "Cargo.toml"]
    found = {one["id"]: one for manifest in manifests for one in linked_packages(read_metadata(sys.argv[1], manifest))}
    packages = sorted(found.values(), key=lambda package: (package["name"], package["version"]))
    sys.stdout.write(notices(packages, toolchain_notices(sys.argv[1])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
