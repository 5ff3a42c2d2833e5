"""Runs the blocks of a page as one script, and prints on rank 0 where each ends: started by test_docs.py.

usage: python page_runner.py SCRIPT END...    the lines at which blocks end
"""

import os
import sys

MARK = "=== end of a block ==="


def main() -> None:
    path, ends = sys.argv[1], [int(end) for end in sys.argv[2:]]
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines(keepends=True)
    # What libraries print past Python goes to stderr: the gloo of some versions of torch does.
    sys.stdout = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    names = {"__name__": "__main__", "__file__": path}
    for start, end in zip([0, *ends], ends):
        # Lines keep their numbers: reports name them.
        text = "\n" * start + "".join(lines[start:end])
        exec(compile(text, path, "exec"), names)
        if os.environ.get("RANK", "0") == "0":
            print(MARK, flush=True)


if __name__ == "__main__":
    main()
