#!/usr/bin/env python3
"""Write what bash, zsh and fish need to complete the programs' commands and options: completion.py OUT PROGRAM...

The options are read from the programs' --help (program_help.py), as for the manual pages. OUT gets bash/NAME, zsh/_NAME and
fish/NAME.fish for each program.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import re
import sys

from program_help import read_programs

HEADING = "# Completion of {name} for {shell}, made by deploy/completion.py from what the program says with --help."
FOLDERS = {"DIR", "DIRECTORY"}
FILES = {"FILE", "PATH", "IN", "OUT"}
WORDS = 72  # most characters of a description, so that it stays on a line


def kind(option):
    """Return the kind of an option's value: none, files, folders, choices (words between bars), or other, which can't be completed."""
    if not option.value:
        return "none"
    if "|" in option.value:
        return "choices"
    word = re.split(r"[^A-Z]", option.value)[0]
    return "files" if word in FILES else "folders" if word in FOLDERS else "other"


def brief(words):
    """Return the first clause of a description. If it is too long, it is cut after a word."""
    clause = re.split(r"[;(\[]|: |\. ", words)[0].strip(" ,.")
    return clause if len(clause) <= WORDS else clause[:WORDS].rsplit(" ", 1)[0].rstrip(" ,") + " ..."


def named(commands, wanted):
    """Return the names of all commands' options whose values are of this kind, sorted."""
    return sorted({name for command in commands for name, option in command.options.items() if kind(option) == wanted})


def bash(name, commands):
    own, *others = commands
    function = f"_{name.replace('-', '_')}"
    choices = {option.name: option.value for command in commands for option in command.options.values() if kind(option) == "choices"}
    lines = [HEADING.format(name=name, shell="bash"), f"{function}() {{",
             "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command='' words=''", "    COMPREPLY=()"]
    if others:
        lines.append(f'    case ${{COMP_WORDS[1]}} in {"|".join(command.name for command in others)}) command=${{COMP_WORDS[1]}} ;; esac')
        lines.append("    [ $COMP_CWORD -gt 1 ] || command=''")
    cases = [(named(commands, "folders"), 'compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$current"); return'),
             (named(commands, "files"), 'compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$current"); return'),
             (named(commands, "other"), "return")]
    cases += [([option], f"words='{value.replace('|', ' ')}'") for option, value in choices.items()]
    lines += ["    case $previous in", *(f"        {'|'.join(options)}) {action} ;;" for options, action in cases if options), "    esac",
              "    [ -n \"$words\" ] || case $command in"]
    for command in commands:
        first = " ".join(other.name for other in others) + " " if command is own and others else ""
        lines.append(f"        {command.name or chr(39) * 2}) words='{first}{' '.join(command.options)}' ;;")
    lines += ["    esac", '    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")', "}",
              f"complete -o default -F {function} {name}"]
    return "\n".join(lines) + "\n"


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def zsh_option(option):
    words = re.sub(r"([\[\]:\\])", r"\\\1", brief(option.words)) or option.name.strip("-")
    action = {"files": "_files", "folders": "_files -/", "choices": f"({option.value.replace('|', ' ')})"}.get(kind(option), " ")
    value = "" if kind(option) == "none" else f":{re.sub('[^A-Za-z/ ]+', ' ', option.value).strip()}:{action}"
    return quoted(f"*{option.name}[{words}]{value}")


def zsh_arguments(command, indent):
    return (" \\\n" + " " * (indent + 4)).join(["_arguments", *map(zsh_option, command.options.values()), "'*:file:_files'"])


def zsh(name, commands):
    own, *others = commands
    lines = [f"#compdef {name}", HEADING.format(name=name, shell="zsh")]
    if not others:
        return "\n".join([*lines, zsh_arguments(own, 0)]) + "\n"
    lines += ["local curcontext=$curcontext state line", "typeset -A opt_args", "local -a commands", "commands=("]
    lines += [f"    {quoted(command.name + ':' + brief(command.words or 'see --help'))}" for command in others]
    lines += [")", "_arguments -C '--help[help]' '--version[version]' ':command:->command' '*::argument:->argument' && return",
              "case $state in", "command) _describe command commands ;;", "argument)", "    case $words[1] in"]
    lines += [f"    {command.name}) {zsh_arguments(command, 4)} ;;" for command in others]
    return "\n".join([*lines, "    esac ;;", "esac"]) + "\n"


def fish(name, commands):
    own, *others = commands
    lines = [HEADING.format(name=name, shell="fish")]
    for command in others:
        lines.append(f"complete -c {name} -f -n __fish_use_subcommand -a {command.name} -d {fish_quoted(command.words or 'see --help')}")
    for command in commands:
        condition = f" -n '__fish_seen_subcommand_from {command.name}'" if command.name else " -n __fish_use_subcommand" if others else ""
        for option in command.options.values():
            value = {"none": "", "files": " -rF", "folders": " -x -a '(__fish_complete_directories)'", "other": " -x",
                     "choices": f" -x -a '{option.value.replace('|', ' ')}'"}[kind(option)]
            words = f" -d {fish_quoted(brief(option.words))}" if option.words else ""
            lines.append(f"complete -c {name}{condition} -l {option.name[2:]}{value}{words}")
    return "\n".join(lines) + "\n"


def fish_quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def main(out, *programs):
    for name, commands in read_programs(programs).items():
        for path, text in ((f"bash/{name}", bash(name, commands)), (f"zsh/_{name}", zsh(name, commands)),
                           (f"fish/{name}.fish", fish(name, commands))):
            path = os.path.join(out, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
