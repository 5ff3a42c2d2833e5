"""Configuration for LLVM's lit: the files that `cargo test` runs pass here too.

    cargo build --workspace && FILECHECK=FileCheck-19 lit test      # tools/setup --llvm installs both
    HIR_BIN=target/release FILECHECK=FileCheck-19 lit test
"""

import os

import lit.formats

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

config.name = "hir"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".hir"]
config.excludes = ["Inputs", "filecheck", "harness", "fuzz"]
config.test_source_root = os.path.join(root, "test")
config.test_exec_root = os.path.join(root, "target", "lit")

tools = os.path.join(root, os.environ.get("HIR_BIN", os.path.join("target", "debug")))
config.environment["PATH"] = os.pathsep.join([tools, os.environ.get("PATH", "")])
if "FILECHECK" in os.environ:
    config.substitutions.append((r"\bFileCheck\b", os.environ["FILECHECK"]))
# A test that names no backend is about the CPU's, also where there are GPUs.
config.substitutions.append((r"\bhir-run\b(?!.*--backend)", "hir-run --backend=cpu"))
config.substitutions.append(("%{root}", root))
config.substitutions.append(("%{examples}", os.path.join(root, "docs", "examples")))

if "HIR_DUMPS" in os.environ:
    config.available_features.add("dumps")
    config.environment["HIR_DUMPS"] = os.environ["HIR_DUMPS"]
    config.substitutions.append(("%{dumps}", os.environ["HIR_DUMPS"]))
    config.substitutions.append(("%dumps", os.environ["HIR_DUMPS"]))
if os.path.exists("/proc/driver/nvidia/version"):
    config.available_features.add("cuda")
