"""Lines of error, as every program prints them: "paceline: error: SENTENCE [paceline help PL-CODE]"."""

import re

ERROR = "paceline: error: "
WAY_OUT = re.compile(r" \[paceline help (PL-[A-Z-]+)\]$")


def sentence_and_code(line):
    way_out = WAY_OUT.search(line)
    assert line.startswith(ERROR) and way_out, line
    return line[len(ERROR) : way_out.start()], way_out[1]
