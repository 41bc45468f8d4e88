# SPDX-License-Identifier: MIT
"""record() in scripts: typed events in a trace, read by babeltrace2."""
import re

import pytest

import scripts
import targets
import traces
from scripts import scalar, told

pytestmark = pytest.mark.skipif(not traces.have_babeltrace(), reason="babeltrace2 is not installed")


def text_of(event):
    """For an empty text babeltrace2 shows that of an event before; its length is right."""
    return "" if event.fields["_word_length"] == "1" else event.fields["word"].strip('"')


def test_recorded_events_add_up(tmp_path):
    prog = targets.build("script")
    r = scripts.run("""T=uprobe:exe:take { record(n=args.n, word=str(args.s), half=args.n / 2.0, bad=str(8)); @ = count(); }
                       uretprobe:exe:take /retval > 1000000000000/ { record(never=1); }""",
                    prog, "tell", 300, options=("--trace", tmp_path / "t"))
    c = told(r.stdout)
    assert r.status == 0, r
    events, lost = traces.babeltrace(tmp_path / "t")
    assert not lost and {e.name for e in events} == {"T"}
    assert str(len(events)) == c["count"] == scalar(r.output, "")
    assert str(sum(int(e.fields["n"]) for e in events)) == c["sum"]
    for word, (n, total) in c["word"].items():
        mine = [int(e.fields["n"]) for e in events if text_of(e) == word]
        assert (len(mine), sum(mine)) == (n, total), word
    assert all(float(e.fields["half"]) == int(e.fields["n"]) / 2 for e in events)
    assert {e.fields["bad"] for e in events} == {'"<fault>"'}


def test_losses_are_in_the_trace(tmp_path):
    """Two events of each call for a buffer of one page: the trace says what is missing, and so do we."""
    r = scripts.run("u:exe:work { record(x=arg0); record(y=arg0, z=arg0, text=comm); }", targets.build("calls"), 20000, 4,
                    options=("--trace", tmp_path / "t", "--buffer-size", "4k"))
    assert r.status == 0 and r.stdout == "20000\n", r
    said = re.search(r"(\d+) events were lost", r.stderr)
    events, lost = traces.babeltrace(tmp_path / "t")
    assert len(events) + lost == 40000 and lost == (int(said[1]) if said else 0), r


def test_without_a_trace_they_are_printed(tmp_path):
    prog = targets.build("script")
    r = scripts.run("uprobe:exe:take { record(args.n, two=2); }", prog, "tell", 20)
    lines = r.output.splitlines()
    assert r.status == 0 and str(len(lines)) == told(r.stdout)["count"], r
    assert all(line.startswith("args.n=") and line.endswith(" two=2") for line in lines)


def test_a_trace_that_is_there_already(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "file").write_text("mine")
    r = scripts.run("uprobe:exe:take { record(args.n); }", targets.build("script"), "tell", 20,
                    options=("--trace", tmp_path / "t"))
    assert r.status == 1 and str(tmp_path) in r.stderr and (tmp_path / "t" / "file").read_text() == "mine"
