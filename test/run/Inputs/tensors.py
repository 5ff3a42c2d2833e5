"""Writes the data files of tests: many arrays of numpy in one file."""

import json
import os
import struct

KINDS = {
    "float32": "F32", "float64": "F64", "float16": "F16", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL", "complex64": "C64",
}


def save(folder, file, table):
    """The format of https://github.com/huggingface/safetensors."""
    header, data = {}, b""
    for name, array in table.items():
        raw = array.tobytes()
        header[name] = {"dtype": KINDS[array.dtype.name], "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, file), "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)
