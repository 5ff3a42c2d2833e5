"""gpu-suite's part `pointwise`: the table of expected results of pointwise functions, test/library/pointwise/table.txt, on a
GPU. make.py beside the table says what its lines mean; nothing but the standard library is needed here.
"""

import json
import struct
import subprocess
import tempfile
from pathlib import Path

TABLE = Path(__file__).resolve().parents[2] / "test/library/pointwise/table.txt"
SIZES = {"double": 8, "float": 4, "__half": 2, "__bfloat": 2, "__e4m3": 1, "__e5m2": 1, "__e8m0": 1, "int64_t": 8, "int": 4, "bool": 1}
NAMES = {
    "double": "F64", "float": "F32", "__half": "F16", "__bfloat": "BF16", "__e4m3": "F8_E4M3", "__e5m2": "F8_E5M2",
    "__e8m0": "F8_E8M0", "int64_t": "I64", "int": "I32", "bool": "BOOL",
}
# Bits of a float's mantissa, and whether all ones in the exponent are infinities and NaNs.
MANTISSA = {"double": 52, "float": 23, "__half": 10, "__bfloat": 7, "__e4m3": 3, "__e5m2": 2}
NANS = {"double": 0x7FF8 << 48, "float": 0x7FC0 << 16, "__half": 0x7E00, "__bfloat": 0x7FC0, "__e8m0": 0xFF}


def groups():
    """The operands (type, words) and the rows (expression, type, limit, words) of each group."""
    found = {}
    for line in TABLE.read_text().splitlines():
        words = line.split(" ")
        if words[0] == "#":
            continue
        if words[0] == "in":
            found.setdefault(words[1], ([], []))[0].append((words[3], words[4:]))
        else:
            limit = 0 if words[2] == "exact" else int(words[2].split("/")[1])
            found[words[3]][1].append((words[0], words[1], limit, words[4:]))
    return found


def program(operands, rows):
    count, first = len(operands[0][1]), len(operands)
    tensor = lambda number, dtype: f"T{number}_g_{dtype}[iS{number}{{{count}}}]"
    inputs = ", ".join(tensor(k, dtype) for k, (dtype, _) in enumerate(operands))
    outputs = ", ".join(tensor(first + k, row[1]) for k, row in enumerate(rows))
    text = f"%HostIrContainer {{ ({inputs}) -> ({outputs}) :\n"
    for k, row in enumerate(rows):
        text += f"  T{first + k}\n     = {row[0].format(*(f'T{place}' for place in range(first)))};\n"
    return text + "} // %HostIrContainer\n"


def write(path, operands):
    """The operands as a safetensors file."""
    header, data = {}, b""
    for place, (dtype, words) in enumerate(operands):
        nan = NANS.get(dtype, 0x7F)
        part = b"".join((nan if word == "nan" else int(word, 16)).to_bytes(SIZES[dtype], "little") for word in words)
        offsets = [len(data), len(data) + len(part)]
        header[f"T{place}"] = {"dtype": NAMES[dtype], "shape": [len(words)], "data_offsets": offsets}
        data += part
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read(path):
    """The tensors of a safetensors file: lists of bits."""
    raw = path.read_bytes()
    length = struct.unpack_from("<Q", raw)[0]
    header, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    sizes = {NAMES[dtype]: size for dtype, size in SIZES.items()}
    found = {}
    for name, entry in header.items():
        if name != "__metadata__":
            (start, end), size = entry["data_offsets"], sizes[entry["dtype"]]
            found[name] = [int.from_bytes(data[at : at + size], "little") for at in range(start, end, size)]
    return found


def is_nan(bits, dtype):
    magnitude = bits & ((1 << (8 * SIZES[dtype] - 1)) - 1)
    if dtype == "__e8m0":
        return bits == 0xFF
    if dtype == "__e4m3":
        return magnitude == 0x7F
    return dtype in MANTISSA and magnitude > (((1 << (8 * SIZES[dtype] - 1)) - 1) >> MANTISSA[dtype]) << MANTISSA[dtype]


def place(bits, dtype):
    """The place of a float among all of its type; zeros have one."""
    sign = 1 << (8 * SIZES[dtype] - 1)
    return -(bits & (sign - 1)) if bits & sign else bits


def fits(bits, word, dtype, limit):
    if word == "*":
        return True
    if word == "nan":
        return is_nan(bits, dtype)
    if word == "zero":
        return place(bits, dtype) == 0
    if limit == 0:
        return bits == int(word, 16)
    return not is_nan(bits, dtype) and abs(place(bits, dtype) - place(int(word, 16), dtype)) <= limit


def run(suite, name, operands, rows, folder):
    """The results of a group's program; None where the run failed."""
    source, inputs, outputs = (folder / f"{name}{end}" for end in (".hir", ".in.safetensors", ".out.safetensors"))
    source.write_text(program(operands, rows))
    write(inputs, operands)
    command = [str(suite.tool), str(source), *suite.pointwise_flags, "-q"]
    for k in range(len(operands)):
        command += ["--input", f"T{k}={inputs}:T{k}"]
    for k in range(len(rows)):
        command += ["--output", f"T{len(operands) + k}={outputs}:T{len(operands) + k}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode == 0:
        return read(outputs)
    print(f"FAILED pointwise {name}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return None


def main(suite, flags=("--backend=cuda",)):
    suite.pointwise_flags = flags
    elements = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (operands, rows) in groups().items():
            got = run(suite, name, operands, rows, Path(folder))
            wrong = []
            for k, (text, dtype, limit, words) in enumerate(rows if got else []):
                bits = got[f"T{len(operands) + k}"]
                elements += len(bits)
                for at, (found, word) in enumerate(zip(bits, words)):
                    if not fits(found, word, dtype, limit):
                        of = ", ".join(column[at] for _, column in operands)
                        wrong.append(f"  {text} of ({of}): {found:x}, not {word} (limit {limit})")
            if wrong or got is None:
                suite.failed.append(f"pointwise {name}")
                print("\n".join([f"FAILED pointwise {name}: {len(wrong)} elements", *wrong[:20]]))
            else:
                suite.passed += 1
    print(f"pointwise: {elements} elements", flush=True)
