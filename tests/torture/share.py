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
    least: float = 1     # so long it takes to begin and to do one thing


def shares(parts, seconds, leave_out=True, clock=time.monotonic, say=print):
    """Runs them in their order. leave_out: not those for which there is no time any more. The names of those that were not content."""
    end, bad, took = clock() + seconds, [], []
    for i, part in enumerate(parts):
        begin = clock()
        if leave_out and end - begin < part.least / 2:
            say(f"{part.name:16} left out: there is no time for it")
            continue
        share = max((end - begin) * part.weight / sum(p.weight for p in parts[i:]), part.least)
        if not part.run(share):
            bad.append(part.name)
        took.append((part.name, share, clock() - begin))
    for name, share, used in took:
        say(f"{name:16} {used:7.1f} s of {share:.1f}")
    return bad
