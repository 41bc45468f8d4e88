# SPDX-License-Identifier: MIT
"""jab and gdb in the same process, at the same hits: what they show of a C++ program's arguments and members is the same.
The long run of this kind, with real programs and places by chance, is tests/torture/samestate.py."""
import sys

import targets

sys.path.insert(0, str(targets.ROOT / "tests" / "torture"))

import realprog_build
import samestate


class Tally:
    """What a run counts."""

    def __init__(self):
        self.counts = {}

    def count(self, what, n=1):
        self.counts[what] = self.counts.get(what, 0) + n

    def fail(self, where, why):
        raise AssertionError(f"{where}: {why}")


def steps(words):
    """this->date.year, name:string: as both are asked."""
    words, _, mode = words.partition(":")
    first, *rest = words.replace("->", " -> ").replace(".", " . ").replace("[", " [ ").replace("]", "").split()
    found = [["var", first]]
    for sign, what in zip(rest[::2], rest[1::2]):
        found.append(["index", int(what)] if sign == "[" else ["field", what, sign])
    return [found, mode]


# By function: how often it is called, and what to ask for; :object is a string of C++, :whole all members.
PLACES = {
    "ledger::Book::add": (12, "this", "name:object", "amount", "kind", "this->limit", "this->entries.most"),
    "ledger::Book::find": (3, "key:object", "when.month", "when.year", "when.is_known", "when.day", "this->limit"),
    "ledger::summary": (12, "rate", "book.limit", "before:object"),
    "ledger::Entry::Entry": (11, "this", "name:object", "amount", "k", "n"),
    "ledger::Loan::worth": (23, "rate", "this->cents", "this->date.year", "this->share[1]", "this->weight", "this->raw.real", "this->raw.bytes[3]",
                            "this->code:string", "this->label:object", "this->flag", "this->before->serial", "this->parts._M_impl._M_start[0]"),
}


def test_same_state(built, tmp_path):
    program = realprog_build.Cxx(tmp_path)
    program.path = built(program.target).resolve()
    tally = Tally()
    both = samestate.Both(program, tally, tmp_path)
    places = []
    for name, (_, *asked) in PLACES.items():
        p = {"kind": "entry", "function": name, "entry": 0, "probe": f"exe:{name}", "asked": [steps(x) for x in asked], "code": {}, "caller": [], "empty": []}
        assert both.locate(p) and both.try_it(p) and not p["refused"], p
        places.append(p)
    assert both.plan(places) == places, tally.counts
    theirs, ours = both.look(places, 400, 1)
    assert not list(samestate.judge(places, theirs, ours, tally))
    hits = {p["function"]: sum(map(len, ours[i].values())) for i, p in enumerate(places)}
    assert hits == {name: n for name, (n, *_) in PLACES.items()}
    assert tally.counts["same"] == sum(n * len(asked) for n, *asked in PLACES.values())
    assert tally.counts["hits of both"] == sum(hits.values())
