"""Completion and the manual pages know every option, and shells really complete: completion.py ROOT BUILD

tables   each option of the programs' own tables in C is in bash's, zsh's and fish's completion, and takes a value where the table
         says so; each option is on the manual page
shells   a bash, a zsh and a fish on a terminal of their own get TAB, and run what they made of it
A shell that is not installed is left out, and the test says so.
"""
# SPDX-License-Identifier: Apache-2.0
import glob
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

TABLES = {"fedserver": "fedserver/commands/command_options.c", "fedclientd": "fedclient/apps/fedclientd_options.c",
          "fedworker": "fedclient/apps/fedworker*.c", "fednic": "fedclient/apps/fednic_options.c",
          "fedtrain": "fedclient/apps/fedtrain.c", "fedcodec": "codecs/tool/*.c", "fedsim": "deploy/sim/fedsim.c"}
ROW = re.compile(r'^\s+\{"([a-z][a-z-]*)", (?:OPTION_)?(FLAG|TEXT|LIST|WHOLE|REAL|NUMBER|OTHER)\b|^\s+(FLAG|TEXT|COUNT)\("([a-z][a-z-]*)", \w|\{"--([a-z][a-z-]+)", |argv\[k\], "--([a-z-]+)"',
                 re.MULTILINE)
SECONDS = 30  # limit of a shell's answer in seconds
TAB = "\t"


def fail(text):
    sys.exit(f"completion.py: {text}")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def table(root, program):
    """Return the options in the program's source: {option: whether it takes a value; None if the source does not say}."""
    options = {}
    for path in glob.glob(os.path.join(root, TABLES[program])):
        for first, kind, macro, second, tool, word in ROW.findall(read(path)):
            kind = kind or macro
            options[first or second or tool or word] = kind != "FLAG" if kind else None
    return options


def check_tables(root, build):
    for program in TABLES:
        texts = {shell: read(build, "completion", shell, name) for shell, name in
                 (("bash", program), ("zsh", "_" + program), ("fish", program + ".fish"))}
        page = read(build, "man", program + ".1").replace("\\-", "-")
        options = table(root, program)
        if len(options) < 2:
            fail(f"{TABLES[program]} has no table that this test can read")
        for option, valued in options.items():
            shown = {"bash": re.search(rf"words='[^']*--{option}[ ']", texts["bash"]), "page": f"--{option}" in page,
                     "zsh": re.search(rf"'\*--{option}\[", texts["zsh"]), "fish": re.search(rf"-l {option}\b(?!-)", texts["fish"])}
            missing = [where for where, there in shown.items() if not there]
            if missing:
                fail(f"{program} --{option} is missing in: {', '.join(missing)}")
            takes = re.search(rf"-l {option}( -x| -rF|)(?: |$)", texts["fish"], re.MULTILINE)[1] != ""
            if valued is not None and takes != valued:
                fail(f"{program} --{option} takes {'a' if valued else 'no'} value, and completion says otherwise")
        print(f"{program}: {len(options)} options")


class Terminal:
    """A shell on a terminal of its own."""

    def __init__(self, words, folder):
        self.said = ""
        self.child, self.end = pty.fork()
        if self.child == 0:
            os.chdir(folder)
            os.execvpe(words[0], words, {"PATH": os.environ["PATH"], "HOME": folder, "TERM": "dumb", "LANG": "C.UTF-8", "PS1": "$ "})

    def send(self, text):
        os.write(self.end, text.encode())

    def wait_for(self, pattern):
        """Read what the shell prints until the pattern matches. Return the match."""
        until = time.monotonic() + SECONDS
        while not re.search(pattern, self.said):
            if time.monotonic() > until or not select.select([self.end], [], [], SECONDS)[0]:
                fail(f"the shell did not print {pattern}; it printed:\n{self.said}")
            try:
                self.said += os.read(self.end, 65536).decode("utf-8", "replace")
            except OSError:
                fail(f"the shell ended; it printed:\n{self.said}")
        return re.search(pattern, self.said)

    def close(self):
        os.close(self.end)  # the shell gets SIGHUP and ends
        os.waitpid(self.child, 0)


def check_typing(shell, words, setup, folder):
    """Type lines with TAB into a shell on a terminal, and check the commands that the shell makes of them."""
    terminal = Terminal(words, folder)
    terminal.send(setup + "\n" + "\n".join(f"{name}() {{ echo got:$*:; }}" for name in ("fedserver", "fedclientd")) + "\n")
    terminal.send("echo set''up\n")
    terminal.wait_for(r"setup\r?\n")
    for typed, made in ((f"fedserver au{TAB}--si{TAB}2026", "audit --since 2026"),
                        (f"fedclientd --until{TAB}--ca my{TAB}", "--until-finished --ca my-ca.pem"),
                        (f"fedserver token --di{TAB}fol{TAB}", "token --dir folder")):
        terminal.send(typed + "\n")
        got = terminal.wait_for(r"got:(.*?):\r?\n")
        if got[1].strip().rstrip("/") != made:  # zsh removes the last slash
            fail(f"{shell} made {got[1]!r} of {typed!r}, and not {made!r}")
        terminal.said = terminal.said[got.end():]
    terminal.close()
    print(f"{shell}: completes")


def check_fish(made, folder):
    """Ask fish's command "complete" what TAB would offer."""
    for typed, wanted in (("fedserver au", ["audit"]), ("fedserver audit --si", ["--since"]), ("fedclientd --until", ["--until-finished"]),
                          ("fedclientd --ca my", ["my-ca.pem"]), ("fedserver token --dir fol", ["folder/"])):
        program = typed.split()[0]
        run = subprocess.run(["fish", "--no-config", "-c", f"source {made}/fish/{program}.fish; complete -C '{typed}'"], cwd=folder, text=True,
                             stdout=subprocess.PIPE, timeout=SECONDS, check=True, env={**os.environ, "HOME": folder})
        offered = [line.split("\t")[0] for line in run.stdout.splitlines()]
        if offered != wanted:
            fail(f"fish offers {offered} after {typed!r}, and not {wanted}")
    print("fish: completes")


def main(root, build):
    check_tables(root, build)
    made = os.path.abspath(os.path.join(build, "completion"))
    with tempfile.TemporaryDirectory(prefix="fed-completion-") as folder:
        os.mkdir(os.path.join(folder, "folder"))
        open(os.path.join(folder, "my-ca.pem"), "w", encoding="utf-8").close()
        check_typing("bash", ["bash", "--norc", "--noprofile", "-i"], f"source {made}/bash/fedserver; source {made}/bash/fedclientd", folder)
        if shutil.which("zsh"):
            check_typing("zsh", ["zsh", "-f", "-i"], f"fpath=({made}/zsh $fpath); autoload -Uz compinit; compinit -u -d dump", folder)
        if shutil.which("fish"):
            check_fish(made, folder)
    for shell in ("zsh", "fish"):
        if not shutil.which(shell):
            print(f"{shell} is not installed, so its completion is not tried")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
