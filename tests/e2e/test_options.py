# SPDX-License-Identifier: MIT
"""What --help says, what the manual says and what a shell completes are the same options. And mistakes on the
command line: the message names what was meant."""
import os
import re
import subprocess

import pytest

import jab

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
COMMANDS = ["trace", "record", "count", "list", "check", "view", "recover", "script"]
EVERYWHERE = {"-h", "--help"}       # jab(1) has them


def help_text(command):
    r = jab.run("help", command)
    assert r.status == 0 and not r.stderr, r
    return r.output


def helped(command):
    """The options of --help, both names of each."""
    lines = re.findall(r"^  (?:(-\w), |    )(--[\w-]+)", help_text(command), re.M)
    return {name for pair in lines for name in pair if name}


def flags(page, only=""):
    """Those that an mdoc page has, on lines that begin with `only`."""
    with open(os.path.join(TOP, "docs", "man", page)) as f:
        lines = [x[1:].split() for x in f if x.startswith("." + only)]
    found, macro = set(), None
    for word in (x for line in lines for x in [*line, "El"]):
        if re.fullmatch("[A-Z][a-z]", word):
            macro = word
        elif macro == "Fl" and re.fullmatch(r"\w|-[\w-]+", word):
            found.add("-" + word)
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_the_manual_has_every_option(command):
    told = flags(f"jab-{command}.1")
    missing = helped(command) - told - EVERYWHERE
    if command == "record":         # it sends the reader to jab-trace(1) for the others, by one of their names
        missing -= flags("jab-trace.1", "It ")
    assert not missing
    unknown = flags(f"jab-{command}.1", "It ") - helped(command)
    assert not unknown


@pytest.mark.parametrize("command", COMMANDS)
def test_a_shell_completes_every_option(command):
    words = '"$1" "$2" -' if command != "script" else '"$1" -p 7 -'
    script = f"""compopt() {{ :; }}; . "$0"; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
                 _jab; printf '%s\\n' "${{COMPREPLY[@]}}\""""
    out = subprocess.run(["bash", "-c", script, os.path.join(TOP, "docs", "completion", "jab.bash"), jab.JAB, command],
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    assert set(out.split()) == helped(command)


@pytest.mark.parametrize("command", COMMANDS[:-1])
def test_help_is_the_same_everywhere(command):
    assert jab.run(command, "--help").output == help_text(command)


@pytest.mark.parametrize("words,message", [
    (["cuont"], "no command and no script 'cuont'; did you mean count?"),
    (["help", "tarce"], "no command and no script 'tarce'; did you mean trace?"),
    (["nothing-like-it"], "no command and no script 'nothing-like-it'; try `jab --help`"),
    (["trace", "--bufer-size", "1"], "no such option '--bufer-size'; did you mean --buffer-size?"),
    (["count", "--jsno"], "no such option '--jsno'; did you mean --json?"),
    (["trace", "--no"], "no such option '--no'; try"),          # two begin so
    (["view", "--quite-other"], "no such option '--quite-other'; try `jab view --help`"),
])
def test_misspelt(words, message):
    r = jab.run(*words)
    assert r.status == 2 and message in r.stderr and not r.output, r
    assert r.stderr.count("\n") == 1, r


@pytest.mark.parametrize("words", [["trace"], ["record", "-o", "none"], ["count"], ["-e", "BEGIN { exit() }"]])
def test_an_option_that_would_do_nothing_is_refused(words):
    r = jab.run(*words, "--allow-trap", "libc:exit", "--", "true")
    assert r.status == 2 and "--allow-trap is not supported: this version has no traps" in r.stderr and not r.output, r
    assert "allow-trap" not in jab.run(words[0], "--help").output


def test_a_long_option_may_be_cut_short(built):
    whole, cut = (jab.run("check", *x, built("calls"), "work") for x in (["--summary", "--json"], ["--summ", "--js"]))
    drop = re.compile(r'"\w+_ns":\d+')
    assert whole.status == cut.status == 0 and drop.sub("", whole.output) == drop.sub("", cut.output), (whole, cut)


@pytest.mark.parametrize("words,message", [
    (["list", "{calls}", "wrok"], "no function matches 'wrok'; did you mean work?"),
    (["-l", "uprobe:{calls}:wrok"], "did you mean work?"),
    (["list", "{calls}", "@calls.c:1"], "'@calls.c:1' is a source line, and only functions are listed"),
    (["check", "{calls}", "@calls.c:99999"], "calls.c has no code at line 99999"),
    (["check", "{calls}", "@call.c:1"], "no source file call.c in the debug info of {calls}"),
    (["check", "{throw}", "through"], "did you mean shop::through?"),
    (["list", "{places}", "copied"], "no function matches 'copied': it was inlined; a probe on it means its copies"),
    (["check", "{places}", "copied%return"], "copied%return: the compiler has inlined copied wherever it is called"),
    (["check", "{calls}", "libpthread:work"], "no mapped file matches 'libpthread'; calls has a function work"),
])
def test_what_is_not_there(built, words, message):
    paths = {name: built(name) for name in ("calls", "throw", "places")}
    r = jab.run(*(x.format(**paths) if "{" in x else x for x in words))
    assert r.status == 1 and message.format(**paths) in r.stderr and not r.output, r


def test_main_of_a_stripped_program(built, tmp_path):
    bare = tmp_path / "bare"
    subprocess.run(["strip", "-o", bare, built("calls")], check=True)
    r = jab.run("list", "--json", bare, "main")
    assert r.status == 0 and int(r.rows[0]["address"], 16) == jab.symbols(built("calls"))["main"], r


def test_a_reader_that_had_enough_is_no_trouble():
    """As with head(1): no word about it."""
    read, write = os.pipe()
    os.close(read)
    for words in (["count", "libc:exit"], ["trace", "libc:exit"], ["-e", "u:libc:exit { @ = count() }"]):
        p = subprocess.run([jab.JAB, *words, "--", "true"], stdout=write, stderr=subprocess.PIPE,
                           stdin=subprocess.DEVNULL, text=True)
        assert "written" not in p.stderr and p.returncode == 1, (words, p)
    os.close(write)
