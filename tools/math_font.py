"""Makes the book's mathematical font: the part of Latin Modern Math that formulas need.

Needs fontTools (it comes with matplotlib), brotli, and the font itself (Debian: fonts-lmodern).
The GUST font licence asks for a new name where a font was changed; the licence stands beside it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fontTools import subset, ttLib

TARGET = Path(__file__).parents[1] / "book/_static/fonts/unmasked-math.woff2"
NAME = "Unmasked Math"
CHARACTERS = (
    "0020-007E 00B0-00B7 00D7 0131 0237 0300-0338 0391-03F6 2016-2044 2061-2064 20D7 210E 2115 "
    "211D 2124 2190-2195 21A6 21D0-21D4 2200-22EF 2308-230B 27E8-27EB 2A7D-2A7E 1D400-1D467 "
    "1D49C-1D4CF 1D53C 1D6A4-1D6DB 1D6FC-1D71B 1D7CE-1D7D7"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = "/usr/share/texmf/fonts/opentype/public/lm-math/latinmodern-math.otf"
    parser.add_argument("font", nargs="?", default=default, help=f"the font (default: {default})")
    font = ttLib.TTFont(parser.parse_args().font)
    options = subset.Options(
        layout_features=["ssty", "dtls"], hinting=False, desubroutinize=True, drop_tables=["FFTM"]
    )
    subsetter = subset.Subsetter(options)
    ranges = ",".join(f"U+{characters}" for characters in CHARACTERS.split())
    subsetter.populate(unicodes=subset.parse_unicodes(ranges))
    subsetter.subset(font)
    for record in font["name"].names:
        if record.nameID in {1, 3, 4, 6, 16}:
            record.string = NAME.replace(" ", "") if record.nameID == 6 else NAME
    font.flavor = "woff2"
    font.save(TARGET)
    print(f"{TARGET}: {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
