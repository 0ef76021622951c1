"""Read a program's --help as a table of its commands and the options of each. man.py and completion.py share this.

An option stands in a usage line, "[--out DIR]", or begins a line of its own, "  --out DIR   where results go". A command is a
line "  name  words" of a help that ends with "COMMAND --help says more", or the word after the program's name in a usage line.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import re
import subprocess
from dataclasses import dataclass, field

HAS_COMMANDS = re.compile(r"COMMAND --help says more")
LISTED = re.compile(r"^  ([a-z]+)  +(\S.*)", re.MULTILINE)
VALUE = r"(?: ([A-Z0-9][A-Z0-9^:/,.\[\]-]*|[a-z0-9]+(?:\|[a-z0-9]+)+)(?![a-z]))?"
NAMED = re.compile(r"(--[a-z][a-z-]*)" + VALUE)
LINE = re.compile(r"^(  --.*)((?:\n {8,}(?!fed).*)*)", re.MULTILINE)  # the line of an option, and the lines that continue it
USAGE = re.compile(r"usage: .*\n(?: {7,}.*\n)*", re.IGNORECASE)


@dataclass
class Option:
    name: str  # with its dashes
    value: str = ""  # what the help calls the value; empty: the option takes none, or this help does not name it
    words: str = ""


@dataclass
class Command:
    name: str  # empty: the program itself
    words: str = ""
    text: str = ""  # the help
    options: dict = field(default_factory=dict)

    def add(self, name, value, words=""):
        option = self.options.setdefault(name, Option(name))
        option.value = option.value or value
        option.words = option.words or words


def say(*words):
    return subprocess.run(words, text=True, stdout=subprocess.PIPE, check=True).stdout


def value_of(text):
    """Remove from a value what a usage line has around it: "N]..." becomes N."""
    text = text.rstrip(".,")
    while text.count("]") > text.count("["):
        text = text[:-1]
    return text


def read_options(command):
    for usage in USAGE.findall(command.text):
        for name, value in NAMED.findall(usage):
            command.add(name, value_of(value))
    for line, more in LINE.findall(command.text):
        at, found = 2, []
        while match := NAMED.match(line, at):
            found.append((match[1], value_of(match[2] or "")))
            at = match.end() - (match[2] or "").endswith(",")
            at += 2 * line.startswith(", ", at)
        found += [(name, value_of(value)) for name, value in NAMED.findall(line[at:] + more) if value]  # options named among the words: "or each --every N steps"
        words = " ".join((line[at:] + more).lstrip(" ,").split())
        for name, value in found:
            command.add(name, value, words)


def read_program(path):
    """Return (name, [Command of the program itself, each of its commands])."""
    name = os.path.basename(path)
    own = Command("", text=say(path, "--help"))
    read_options(own)
    if HAS_COMMANDS.search(own.text):
        commands = [Command(*found, text=say(path, found[0], "--help")) for found in LISTED.findall(own.text)]
        own.options = {option: Option(option) for option in ("--help", "--version")}
        for command in commands:
            read_options(command)
    else:  # the program's help has the options of its commands, and does not always say whose they are
        usage = "".join(USAGE.findall(own.text))
        names = dict.fromkeys(re.findall(rf"^(?:usage:|      ) {name} ([a-z]+)\b", usage, re.IGNORECASE | re.MULTILINE))
        commands = [Command(found, options=own.options) for found in names]
    return name, [own, *commands]


def read_programs(paths):
    """Return {name: commands}. If a help leaves out an option's value ("--bind, --page  as of run"), another help's value is taken."""
    programs = dict(map(read_program, paths))
    options = [option for commands in programs.values() for command in commands for option in command.options.values()]
    values = {option.name: option.value for option in options if option.value}
    for option in options:
        option.value = option.value or values.get(option.name, "")
    return programs
