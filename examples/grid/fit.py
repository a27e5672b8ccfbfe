"""Fit a line to noisy points by gradient descent. Needs nothing but Python; diverges if lr is too big."""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    conf = Path(__file__).parent / "conf" / "optimizer.json"
    optimizer = json.loads(conf.read_text())["optimizer"]
    dice = random.Random(given.seed)
    points = [(x / 10, 3 * x / 10 + 1 + dice.gauss(0, 0.1)) for x in range(-10, 10)]
    slope = offset = push_slope = push_offset = 0.0
    keep = 0.9 if optimizer["name"] == "momentum" else 0.0
    for _ in range(given.steps):
        errors = [(slope * x + offset - y, x) for x, y in points]
        push_slope = keep * push_slope - optimizer["lr"] * sum(e * x for e, x in errors) / len(points)
        push_offset = keep * push_offset - optimizer["lr"] * sum(e for e, _ in errors) / len(points)
        slope, offset = slope + push_slope, offset + push_offset
    loss = sum((slope * x + offset - y) ** 2 for x, y in points) / len(points)
    print(f"{optimizer['name']} lr={optimizer['lr']}: y = {slope:.2f} x + {offset:.2f}, loss {loss:.4f}")
    return 0 if math.isfinite(loss) and loss < 0.1 else 1


if __name__ == "__main__":
    sys.exit(main())
