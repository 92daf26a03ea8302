#!/usr/bin/env python3
"""Makes golden.json: IDs composed by plain arithmetic on Python's integers.

It shares nothing with leafd. An ID is a number of parts that are, from the top,
the time since the layout's epoch in milliseconds, the datacenter (in layouts of
four parts), the worker and the sequence: each part multiplied by two to the
number of bits below it. See README.md for the command and the fields.
"""

import json
import random
import sys

JAVA_LEAF_EPOCH = 1288834974657  # Thu Nov 04 2010 01:42:54.657 UTC, as in the Java Leaf and Twitter's snowflake
SEED = 20240229
MAX_ID = 2**63 - 1

# (layout, epoch in ms since 1970, random vectors besides the edges)
LAYOUTS = [
    ("41+10+12", JAVA_LEAF_EPOCH, 60),
    ("41+5+5+12", JAVA_LEAF_EPOCH, 40),
    ("41+10+12", 0, 6),
    ("41+10+12", 1735689600000, 6),  # 2025-01-01
    ("39+12+12", 1704067200000, 6),  # 2024-01-01; ends in 2041
    ("42+8+13", 1577836800000, 6),  # 2020-01-01
    ("40+10+13", 1609459200000, 6),
    ("45+6+12", JAVA_LEAF_EPOCH, 6),
    ("31+16+16", 1767225600000, 6),  # 31 bits of ms: under 25 days
    ("41+3+7+12", 1420070400000, 6),
    ("41+10+8", 1420070400000, 6),  # fewer than 63 bits
    ("41+1+1+1", JAVA_LEAF_EPOCH, 6),
]

# Real moments, ms since 1970, where the layout reaches them.
MOMENTS = [1288834974658, 1483228800000, 1700000000000, 1709164800000, 1767225599999, 2147483647999, 2147483648000]

INVALID = [
    ("", "empty"),
    (" ", "blank"),
    ("41", "one part"),
    ("41+22", "two parts"),
    ("41+5+5+6+6", "five parts"),
    ("41+10+13", "64 bits, one more than an ID has beside its sign"),
    ("42+10+12", "64 bits, one more than an ID has beside its sign"),
    ("41+6+5+12", "64 bits, one more than an ID has beside its sign"),
    ("63+63+63", "189 bits"),
    ("0+10+12", "no bits for the time"),
    ("41+0+12", "no bits for the worker"),
    ("41+10+0", "no bits for the sequence"),
    ("41+0+10+12", "no bits for the datacenter"),
    ("41+5+0+12", "no bits for the worker"),
    ("0+0+0", "no bits at all"),
    ("-41+10+12", "negative part"),
    ("41+-10+12", "negative part"),
    ("41+10+-12", "negative part"),
    ("64+-10+9", "negative part that would make the sum 63"),
    ("+41+10+12", "sign before the first part"),
    ("41+10+12+", "ends in a plus"),
    ("41++10+12", "empty part"),
    ("++", "empty parts"),
    ("41 + 10 + 12", "blanks"),
    (" 41+10+12", "leading blank"),
    ("41+10+12\n", "trailing line end"),
    ("41+10+12\u0000", "trailing NUL"),
    ("41-10-12", "wrong separator"),
    ("41,10,12", "wrong separator"),
    ("41/10/12", "wrong separator"),
    ("a+b+c", "letters"),
    ("41+10+x", "a letter"),
    ("41+10+0x0c", "hexadecimal"),
    ("4e1+10+12", "exponent"),
    ("41.0+10+12", "fraction"),
    ("4_1+10+12", "underscore"),
    ("\u0664\u0661+\u0661\u0660+\u0661\u0662", "digits that are not ASCII"),
    ("\uff14\uff11+10+12", "full-width digits"),
    ("64+10+12", "86 bits"),
    ("256+10+12", "a part past 8 bits"),
    ("4294967337+10+12", "2^32 + 41: must not wrap"),
    ("18446744073709551657+10+12", "2^64 + 41: must not wrap"),
    ("9223372036854775807+1+1", "the sum must not wrap"),
    ("9223372036854775807+9223372036854775807+65", "the sum mod 2^64 is 63"),
    ("99999999999999999999999999999999999999999999+10+12", "huge number"),
    ("41+10+12;rm", "text behind"),
    ("null", "word"),
    ("{}", "JSON"),
]


def compose(bits, parts):
    """Returns the ID of parts with bits as their sizes, top first."""
    value = 0
    for size, part in zip(bits, parts):
        if not 0 <= part < 2**size:
            raise ValueError(f"{part} does not fit {size} bits")
        value = value * 2**size + part
    if not 0 <= value <= MAX_ID:
        raise ValueError(f"{value} is no positive int64")
    return value


def vectors(layout, epoch, randoms, rng):
    bits = [int(p) for p in layout.split("+")]
    last = [2**b - 1 for b in bits]
    zero = [0] * len(bits)
    chosen = [zero, list(last)]
    for i in range(len(bits)):
        chosen.append([last[j] if j == i else 0 for j in range(len(bits))])  # one part full
        chosen.append([0 if j == i else last[j] for j in range(len(bits))])  # all others full
        chosen.append([1 if j == i else 0 for j in range(len(bits))])  # the lowest bit of one part
    for moment in MOMENTS:
        if epoch <= moment <= epoch + last[0]:
            chosen.append([moment - epoch] + [rng.randint(0, m) for m in last[1:]])
    for _ in range(randoms):
        chosen.append([rng.randint(0, m) for m in last])
    seen = set()
    for parts in chosen:
        if tuple(parts) in seen:
            continue
        seen.add(tuple(parts))
        vector = {"layout": layout, "epoch": epoch, "timestamp": epoch + parts[0]}
        if len(bits) == 4:
            vector["datacenter"] = parts[1]
        vector["worker"] = parts[-2]
        vector["sequence"] = parts[-1]
        vector["id"] = str(compose(bits, parts))
        yield vector


def main():
    rng = random.Random(SEED)
    valid = [v for layout, epoch, randoms in LAYOUTS for v in vectors(layout, epoch, randoms, rng)]
    invalid = [{"layout": layout, "reason": reason} for layout, reason in INVALID]
    if len({v["layout"] for v in invalid}) != len(invalid):
        raise ValueError("an invalid layout stands there twice")
    out = sys.stdout

    def lines(items):
        return ",\n".join("    " + json.dumps(i, ensure_ascii=True) for i in items)

    out.write('{\n  "vectors": [\n' + lines(valid) + '\n  ],\n  "invalid_layouts": [\n' + lines(invalid) + "\n  ]\n}\n")


if __name__ == "__main__":
    main()
