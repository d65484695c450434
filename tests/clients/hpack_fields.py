"""Decodes HPACK blocks and compares them with the same fields as text.

A line of standard input has both in hexadecimal: the text, a tab, the block. All blocks are those of one connection. Writes their number.
"""

import sys

from hpack import Decoder


def fields_of(text):
    lines = text.split(b"\r\n")
    assert lines[-2:] == [b"", b""], f"no empty line at the end of {text!r}"
    pairs = (line.split(b":", 1) for line in lines[:-2])
    return [(name.lower(), value.strip(b" \t")) for name, value in pairs]


decoder = Decoder(max_header_list_size=4 << 20)
count = 0
for line in sys.stdin:
    text, block = (bytes.fromhex(part) for part in line.rstrip("\n").split("\t"))
    decoded = [(bytes(name), bytes(value)) for name, value in decoder.decode(block, raw=True)]
    assert decoded == fields_of(text), f"{decoded} is not {text!r}"
    assert not decoder.header_table.dynamic_entries, f"{text!r} changes the dynamic table"
    count += 1
print(count)
