#!/usr/bin/env python3
"""Writes the record files of version 2 in this directory, sound and damaged ones."""
import hashlib
import json
import pathlib

HERE = pathlib.Path(__file__).parent
SLOT = 16384
HEAD = [b'{"leafd": 2, "slots": [\n', b""]
TAIL = [b",\n", b"\n]}\n"]


def record(timestamp, **other):
    """The record of good-cluster.json, at another time."""
    r = json.loads((HERE / "good-cluster.json").read_bytes())["record"]
    return r | {"timestamp": timestamp, "ceiling": timestamp + 6000, "registered": timestamp - 3000} | other


def slot(sequence, rec):
    body = json.dumps(rec, indent=2).replace("\n", "\n  ")
    checked = f'"sequence": {sequence},\n  "record": {body}'.encode()
    digest = hashlib.sha256(checked).hexdigest().encode()
    text = HEAD[sequence % 2] + b'{\n  "sha256": "' + digest + b'",\n  ' + checked + b"\n}"
    return text.ljust(SLOT - len(TAIL[sequence % 2])) + TAIL[sequence % 2]


def write(name, raw):
    (HERE / name).write_bytes(raw)


T = 1700000000000
older, newer, next_ = slot(4, record(T)), slot(5, record(T + 3000)), slot(6, record(T + 6000))
torn = next_[:300] + older[300:]  # the save of sequence 6 was cut short by a power cut
other = slot(5, record(T + 3000, node="10.0.0.9:8080"))
swapped = newer.index(b'"record"')

write("good-slots.json", older + newer)
pieces = {
    "change": 4711, "longest_lease": 30 * 7 * 24 * 3600 * 10**9,
    "instance": "6f1f2f4a-54c1-4d0c-8a52-6b0b5f4f7e11", "born": T - 9000, "floor": T - 9000, "limit": T + 604800000,
    "acked": "6e0c1d57-2b7f-4f0e-9d4b-8d1f6f3a5c02", "current": "0b1d3a2e-7c86-4d6a-8f0e-5a8f6f0f9f21",
    "confirmed": True, "released": True,
}
write("good-slots-first-save.json", slot(0, record(T, **pieces)) + slot(1, record(T, **pieces)))
write("torn-newer.json", older + newer[:512] + slot(3, record(T - 3000))[512:])
write("torn-older.json", torn + newer)
write("torn-zeros.json", older + bytes(SLOT))
write("torn-ceiling-edited.json", older + newer.replace(b'"ceiling": 1700000009000', b'"ceiling": 1700000001000'))
write("torn-swapped-record.json", older + newer[:swapped] + other[swapped:])
write("damaged-both-torn.json", torn + bytes(SLOT))
write("damaged-slots-swapped.json", newer + older)
write("damaged-slots-truncated.json", (older + newer)[: SLOT + 600])
write("damaged-slots-appended.json", older + newer + b"\n")
write("damaged-slots-reformatted.json", json.dumps(json.loads(older + newer), indent=2).encode() + b"\n")
write("damaged-slots-ceiling.json", older + slot(5, record(T + 3000, ceiling=(T + 9000) * 10**6)))
write("newer-slots-field.json", older + slot(5, record(T + 3000, shard=3)))
