#!/usr/bin/env python3
"""Writes table.rs: one media type for each extension in mime-db.

    npm install --prefix DIR mime-db@1.54.0
    python3 table.py DIR/node_modules/mime-db > table.rs

If several types have an extension, the script selects one of them like the package mime-types of the same authors: a standard type
before a vendor's, and that before an experimental one (the facets of RFC 6838, section 3); then a type of IANA before one of mime-db,
and that before those of Apache and nginx.
"""

import json
import sys

VERSION = "1.54.0"
FACETS = {"prs.": 100, "x-": 200, "x.": 300, "vnd.": 400}
SOURCES = {"nginx": 10, "apache": 20, None: 30, "iana": 40}
KINDS = {"application": 1, "font": 2, "audio": 2, "video": 3}


def score(media, source):
    kind, subtype = media.split("/")
    facet = next((score for facet, score in FACETS.items() if subtype.startswith(facet)), 900)
    # The type of unknown data comes last; of two equal ones, the shorter comes first.
    if media == "application/octet-stream":
        return 0
    return facet + SOURCES[source] + KINDS.get(kind, 0) + 1 - len(media) / 100


def main(package):
    with open(f"{package}/package.json", encoding="utf-8") as file:
        version = json.load(file)["version"]
    if version != VERSION:
        sys.exit(f"mime-db {version} is not {VERSION}")
    with open(f"{package}/db.json", encoding="utf-8") as file:
        types = json.load(file)
    best = {}
    for media, about in sorted(types.items()):
        for extension in about.get("extensions", []):
            found = (score(media, about.get("source")), media)
            best[extension] = max(best.get(extension, found), found)
    print(f"//! Media types by extension, from mime-db {VERSION}. Generated: edit `table.py` instead.")
    print("//!")
    print("//! mime-db is under the MIT License (its text is that of LICENSE-MIT), and has these notices:")
    print("//! Copyright (c) 2014 Jonathan Ong; Copyright (c) 2015-2022 Douglas Christopher Wilson.")
    print()
    print("/// Extension in lower case, and media type. Sorted.")
    print("#[rustfmt::skip]")
    print("pub(super) const TABLE: &[(&str, &str)] = &[")
    for extension, (_, media) in sorted(best.items()):
        print(f'    ("{extension}", "{media}"),')
    print("];")


main(sys.argv[1])
