"""The faults that mutate.py can plant in a C source: a tokenizer, a parser of statements, and a function for each kind of fault."""
# SPDX-License-Identifier: Apache-2.0
import bisect
import collections
import dataclasses
import random
import re

KINDS = ("operator", "condition", "call", "swap", "constant", "status", "member")

TOKEN = re.compile(r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n\\]|\\.)*)|(?P<text>L?"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<name>[A-Za-z_]\w*)|(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)|(?P<sign>->|\+\+|--|<<=|>>=|\.\.\.|<<|>>|[-+*/%&|^<>=!]=|&&|\|\||.)
    """, re.X | re.S | re.M)
Token = collections.namedtuple("Token", "kind text start end")
LOOPS = ("for", "while", "do")
PAIRS = {"(": ")", "[": "]", "{": "}"}
# No faults in the arguments of these functions.
UNSEEN = re.compile(r"^(assert|static_assert|_Static_assert|sizeof|offsetof|\w*logf?|\w*printf|fed_error_\w+|va_\w+|strerror|gnutls_memset)$")
# Calls of these functions are not left out, because tests can't see a difference.
QUIET = re.compile(r"^(assert|static_assert|_Static_assert|\w*logf?|\w*printf|fed_error_\w+|va_\w+|free|\w+_(free|deinit|decref|destroy|zeroize)"
                   r"|gnutls_memset)$")


def tokens_of(text):
    found, at = [], 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match.lastgroup != "skip":
            found.append(Token(match.lastgroup, match.group(), match.start(), match.end()))
        at = match.end()
    return found


class Source:
    """The tokens of a file, and the statements, blocks and conditions of its functions, as token numbers."""

    def __init__(self, path, text):
        self.path, self.text = path, text
        self.tokens = tokens_of(text)
        self.partner = self.pair()
        self.simple = []  # (first token, its semicolon, what the function returns)
        self.conditions = []  # (keyword, first token, token after the last, token after what it controls)
        self.blocks = []  # statements of each block; None: not a simple statement
        self.functions()

    def pair(self):
        partner, open_ones = {}, []
        for k, token in enumerate(self.tokens):
            if token.text in PAIRS:
                open_ones.append(k)
            elif token.text in PAIRS.values() and open_ones:
                partner[open_ones.pop()] = k
        return partner

    def word(self, k):
        return self.tokens[k].text if k < len(self.tokens) else ""

    def piece(self, first, behind):
        return self.text[self.tokens[first].start:self.tokens[behind - 1].end]

    def functions(self):
        k = begin = 0
        while k < len(self.tokens):
            if self.word(k) == "{" and self.word(k - 1) == ")":
                status = self.word(begin) == "fed_status" or self.word(begin + 1) == "fed_status"
                self.block(k, status)
            if self.word(k) in PAIRS:
                last = self.partner[k]
                k, begin = last + 1, last + 1 if self.word(last) == "}" else begin
            else:
                k, begin = k + 1, k + 1 if self.word(k) == ";" else begin

    def block(self, k, status):
        last, inside = self.partner[k], []
        k += 1
        while k < last:
            behind = self.statement(k, status)
            simple = self.simple and self.simple[-1][:2] == (k, behind - 1)
            inside.append((k, behind - 1) if simple else None)
            k = behind
        self.blocks.append(inside)
        return last + 1

    def statement(self, k, status):
        """Note the statement that begins at token k. Return the token at which the next one begins."""
        word = self.word(k)
        if word == "{":
            return self.block(k, status)
        if word in ("if", "while", "for", "switch"):
            return self.controlled(k, status)
        if word in ("else", "do") or self.tokens[k].kind == "name" and self.word(k + 1) in LOOPS:  # a macro before a loop
            return self.statement(k + 1, status)
        if self.word(k + 1) == "(" and self.word(self.partner[k + 1] + 1) == "{":  # a macro that is a loop
            return self.statement(self.partner[k + 1] + 1, status)
        if word in ("case", "default") or self.tokens[k].kind == "name" and self.word(k + 1) == ":":
            while self.word(k) != ":":
                k += 1
            return k + 1
        last = k
        while self.word(last) != ";":
            if last >= len(self.tokens):
                raise ValueError(f"{self.path}: no end of the statement at {self.text[self.tokens[k].start:][:40]!r}")
            last = self.partner.get(last, last) + 1
        self.simple.append((k, last, status))
        return last + 1

    def controlled(self, k, status):
        last = self.partner[k + 1]
        if self.word(k) == "while" and self.word(last + 1) == ";":
            self.conditions.append((self.word(k), k + 2, last, last + 2))
            return last + 2
        behind = self.statement(last + 1, status)
        self.conditions.append((self.word(k), k + 2, last, behind))
        return self.statement(behind, status) if self.word(behind) == "else" else behind

    def is_for_lack_of_memory(self, first, behind):
        """Return whether the statement acts only if memory is out, which no test brings about."""
        return any(self.word(k) in ("FED_ENOMEM", "fail_memory", "no_memory") for k in range(first, behind))

    def seen(self):
        """Return the tokens at which a fault can be planted."""
        unseen = set()
        for k, token in enumerate(self.tokens):
            if token.kind == "name" and UNSEEN.match(token.text) and self.word(k + 1) == "(":
                unseen.update(range(k, self.partner[k + 1] + 1))
            if [self.word(j) for j in range(k, k + 3)] == ["{", "0", "}"]:  # an empty value
                unseen.add(k + 1)
        ranges = [(a, b) for a, b, _ in self.simple] + [(a, b) for _, a, b, _ in self.conditions]
        return [k for a, b in ranges for k in range(a, b) if k not in unseen]

    def called(self, first, last):
        """Return the name of the function if the statement is only a call."""
        k = first
        if self.tokens[k].kind != "name":
            return None
        while self.word(k + 1) in ("->", ".", "["):
            k = self.partner[k + 1] - 1 if self.word(k + 1) == "[" else k + 2
            k += self.word(k + 1) == "]"
        return self.word(k) if self.word(k + 1) == "(" and self.partner[k + 1] == last - 1 else None

    def assigned(self, first, last):
        """Return the token "=" if the statement is an assignment and no declaration."""
        k = first + (self.word(first) == "*")
        if self.tokens[k].kind != "name":
            return None
        k += 1
        while self.word(k) in ("->", ".", "["):
            k = self.partner[k] + 1 if self.word(k) == "[" else k + 2
        return k if k < last and self.word(k) in ("=", "+=", "-=", "|=", "&=") else None


@dataclasses.dataclass(frozen=True)
class Fault:
    path: str
    line: int
    kind: str
    start: int
    end: int
    before: str
    after: str

    def says(self):
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        return f"{before} -> {after or '(nothing)'}"

    def __str__(self):
        return f"{self.path}:{self.line}:{self.kind}: {self.says()}"


SWAPPED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+=": "-=", "-=": "+="}
SIGNS = {"+": "-", "-": "+"}


def operators(source):
    for k in source.seen():
        word = source.word(k)
        binary = source.tokens[k - 1].kind in ("name", "number") or source.word(k - 1) in (")", "]")
        if word in SWAPPED or word in SIGNS and binary and source.word(k - 1) != "return":
            yield k, k + 1, {**SWAPPED, **SIGNS}[word]


def conditions(source):
    for word, first, behind, last in source.conditions:
        text = source.piece(first, behind)
        if word in ("if", "while"):
            yield first, behind, f"!({text})"
        if word in ("if", "while") and not ("== NULL" in text and source.is_for_lack_of_memory(behind, last)):
            yield first, behind, f"({text}) && 0"
        if word == "if":
            yield first, behind, f"({text}) || 1"


def calls(source):
    for first, last, _ in source.simple:
        name = source.called(first, last)
        if name and not QUIET.match(name) and not source.is_for_lack_of_memory(first, last):
            yield first, last, ""


def names_in(source, first, last):
    return {t.text for k, t in enumerate(source.tokens[first:last], first)
            if t.kind == "name" and source.word(k + 1) != "(" and t.text not in ("err", "NULL", "FED_OK")}


def swaps(source):
    for block in source.blocks:
        for one, two in zip(block, block[1:]):
            if not one or not two or source.is_for_lack_of_memory(one[0], two[1]):
                continue
            called = [source.called(*each) for each in (one, two)]
            acts = all(name or source.assigned(*each) for name, each in zip(called, (one, two)))
            if acts and any(called) and not any(name and QUIET.match(name) for name in called) and \
                    names_in(source, *one) & names_in(source, *two):
                between = source.text[source.tokens[one[1]].start:source.tokens[two[0]].start]
                yield one[0], two[1], source.piece(*two) + between + source.piece(*one)


def constants(source):
    for k in source.seen():
        word = source.word(k)
        number = re.fullmatch(r"(\d+)([uUlL]*)", word)
        if number and not (len(word) > 1 and word[0] == "0"):
            value = int(number.group(1))
            yield k, k + 1, f"{1 - value if value < 2 else value + 1}{number.group(2)}"
        elif re.fullmatch(r"[A-Z][A-Z0-9_]*_(MAX|LIMIT|SIZE|BYTES|MS|COUNT)", word) and "INT" not in word and word != "SIZE_MAX":
            yield k, k + 1, f"(2 * {word})"


def statuses(source):
    for first, last, status in source.simple:
        fails = status and source.word(first) == "return" and source.piece(first, last) != "return FED_OK"
        if fails and not source.is_for_lack_of_memory(first, last):
            yield first + 1, last, f"((void)({source.piece(first + 1, last)}), FED_OK)"


def members(source):
    for first, last, _ in source.simple:
        sign = source.assigned(first, last)
        if sign and sign > first + 1:
            yield first, last, ""
        for k in range(first, last):
            if source.word(k) == "." and source.word(k - 1) in ("{", ",") and source.word(k + 2) == "=":
                behind = k
                while source.word(behind) not in (",", "}"):
                    behind = source.partner.get(behind, behind) + 1
                yield k, behind + (source.word(behind) == ","), ""


MAKERS = dict(zip(KINDS, (operators, conditions, calls, swaps, constants, statuses, members)))


def faults_of(path, text):
    source = Source(path, text)
    lines = [0] + [match.end() for match in re.finditer("\n", text)]
    for kind in KINDS:
        for first, behind, after in MAKERS[kind](source):
            start, end = source.tokens[first].start, source.tokens[behind - 1].end
            if kind in ("call", "member") and source.word(behind) == ";":
                end = source.tokens[behind].start  # keep the semicolon: it may be the whole body of an if
            yield Fault(path, bisect.bisect_right(lines, start), kind, start, end, text[start:end], after)


def drawn(faults, seed):
    """Return all faults in a random order that SEED determines. Each kind comes as often as any other."""
    rng = random.Random(seed)
    pools = {kind: [fault for fault in faults if fault.kind == kind] for kind in KINDS}
    for pool in pools.values():
        rng.shuffle(pool)
    while any(pools.values()):
        pool = pools[rng.choice([kind for kind in KINDS if pools[kind]])]
        yield pool.pop()
