#!/usr/bin/env python3
"""Writes the notices of all that the wheel links: for each crate its licence, and the texts that its authors ship.

    python/third_party_notices.py TARGET [MANIFEST]... > python/LICENSE-THIRD-PARTY

`build-wheel` does so for the extension module, and `tools/release` for programs, by their manifests. Crates are those that cargo
links for a target, `x86_64-unknown-linux-gnu`: no build scripts, macros or tests. A crate without a text of its own gets the ones
of its licence that others ship.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
TEXTS = re.compile(r"(licen[cs]e|copying|notice|copyright|unlicense)", re.IGNORECASE)
LINE = "=" * 100


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


def notices(packages: list[dict[str, Any]]) -> str:
    """The whole file. Raises `ValueError` for a package of which neither a text nor a known licence is found."""
    standard = standard_texts(packages)
    parts = [
        "This package has programs or a module that are linked with the libraries below, and with Rust's standard library",
        "(MIT OR Apache-2.0, https://github.com/rust-lang/rust). Each is under the licence that stands beside its name.",
    ]
    written: dict[str, str] = {}
    for package in packages:
        licence = package["license"] or "see the text"
        texts = shipped_texts(package)
        if not texts:
            known = [name for name in standard if name in licence]
            if not known:
                raise ValueError(f"{package['name']} {package['version']} ({licence}) ships no text of its licence")
            authors = ", ".join(package["authors"]) or f"the authors of {package['name']}"
            texts = {f"{name}, copyright {authors}": standard[name] for name in known[:1]}
        parts += ["", LINE, f"{package['name']} {package['version']}: {licence}", package["repository"] or "", LINE]
        for name, text in texts.items():
            first = written.setdefault(text, f"{package['name']} {package['version']}, {name}")
            is_first = first == f"{package['name']} {package['version']}, {name}"
            parts += ["", f"--- {name}", "", text if is_first else f"The text is that of {first}."]
    return "\n".join(parts) + "\n"


def main() -> int:
    """Writes the notices to standard output."""
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    manifests = [Path(text) for text in sys.argv[2:]] or [FOLDER / "Cargo.toml"]
    found = {one["id"]: one for manifest in manifests for one in linked_packages(read_metadata(sys.argv[1], manifest))}
    sys.stdout.write(notices(sorted(found.values(), key=lambda package: (package["name"], package["version"]))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
