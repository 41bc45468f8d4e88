# SPDX-License-Identifier: MIT
"""Sharing a fixed time between parts of a long run. Each gets its share of what is left when its turn comes: one that takes longer
(all of them end what they have begun) leaves less for those after it, one that ends early leaves more."""
import time
from dataclasses import dataclass
from typing import Callable


@dataclass
class Part:
    name: str
    weight: float
    run: Callable        # takes seconds; True: it was content
    least: float = 1     # with less time it has nothing to do


def shares(parts, seconds, clock=time.monotonic, say=print):
    """Runs all of them, in their order. The names of those that were not content."""
    end, bad, took = clock() + seconds, [], []
    for i, part in enumerate(parts):
        begin = clock()
        share = max((end - begin) * part.weight / sum(p.weight for p in parts[i:]), part.least)
        if not part.run(share):
            bad.append(part.name)
        took.append((part.name, share, clock() - begin))
    for name, share, used in took:
        say(f"{name:16} {used:7.1f} s of {share:.1f}")
    return bad
