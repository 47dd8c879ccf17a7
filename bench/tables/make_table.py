#!/usr/bin/env python3
"""Makes a layer table of a network that `paceline models` describes.

    bench/tables/make_table.py googlenet 0.13 > bench/tables/googlenet.json

The second number is the time of forward and backward of one iteration in seconds, which nobody measured: it is shared out in
proportion to multiply-accumulates, backward twice as long as forward. PACELINE names the program (default: paceline).
"""

import json
import os
import subprocess
import sys

SOURCE = (
    "parameters of the published network as `paceline models {name}` has them; times are not measured: {total:g} s for forward and "
    "backward of one iteration, split in proportion to multiply-accumulates, backward = 2 x forward"
)


def table(name, total):
    described = subprocess.run([os.environ.get("PACELINE", "paceline"), "models", name, "--json"], check=True, capture_output=True, text=True)
    model = json.loads(described.stdout)
    macs = sum(layer["macs"] for layer in model["layers"])
    rows = []
    for layer in model["layers"]:
        share = total * layer["macs"] / macs
        rows.append({"name": layer["name"], "parameters": layer["parameters"], "forward_s": round(share / 3, 9), "backward_s": round(share * 2 / 3, 9)})
    head = {"model": name, "source": SOURCE.format(name=name, total=total), "parameters": model["parameters"], "compute_s": total}
    lines = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    return "{\n" + "\n".join(lines) + '\n "layers": [\n' + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "\n ]\n}\n"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.stdout.write(table(sys.argv[1], float(sys.argv[2])))
