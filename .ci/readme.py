"""Run the Python blocks of a README unchanged, in order, in this interpreter and folder."""

import re
import sys
import time
from pathlib import Path


def main(path: str) -> None:
    """Every block gets a line with its time; an error ends it."""
    blocks = re.findall(r"```python\n(.*?)```", Path(path).read_text(encoding="utf-8"), re.DOTALL)
    namespace = {"__name__": "readme"}
    for number, block in enumerate(blocks, 1):
        began = time.perf_counter()
        exec(compile(block, f"{path}, block {number}", "exec"), namespace)
        print(f"block {number} of {len(blocks)}: {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
