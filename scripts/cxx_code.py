"""What scripts/check_style sees of C++: functions with their lines, classes with their functions. By its braces alone, so only as far
as a formatted tree needs it.
"""

import bisect
import re

# Comments, string and character literals, preprocessor lines; what is left is code.
NO_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<end>[^(\s]*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|(?<![\w])\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*',
    re.DOTALL | re.MULTILINE,
)
TYPE = re.compile(r"\b(?:class|struct|enum|union|namespace|extern)\b")
NAMED_TYPE = re.compile(r"\b(?:class|struct|enum|enum class|enum struct|union)\s+(\w+)\s*(?:final\s*)?(?::[^;{()]*)?\{")
INITIALIZERS = re.compile(r"\)\s*(?:noexcept\s*)?:\s*[^:]")


def code_of(text):
    """Without comments and literals, with as many lines."""
    return NO_CODE.sub(blank, text)


def blank(match):
    """As many lines, no code: a literal becomes one word."""
    text = match.group(0)
    return ("_" if text[0] in "\"'R" else "") + "\n" * text.count("\n")


def functions(code):
    """(first line, lines) of every function body at the level of a namespace or class. `code`: without comments and literals."""
    newlines = [match.start() for match in re.finditer("\n", code)]
    line_of = lambda at: bisect.bisect_left(newlines, at) + 1  # noqa: E731
    found, scopes, start = [], [], 0
    for match in re.finditer(r"[{};]", code):
        at, sign = match.start(), match.group(0)
        if sign == ";":
            if not scopes or scopes[-1][0] == "type":
                start = at + 1
        elif sign == "{":
            head = code[start:at]
            if scopes and scopes[-1][0] != "type":
                scopes.append(("inner", at, None))
                continue
            before = head.rstrip()
            word = re.search(r"(\w+)?>?$", before).group(1) or ""
            member = before[-1:] and re.match(r"[\w>]", before[-1]) and word not in ("const", "override", "noexcept", "final", "try")
            if TYPE.search(head) and ")" not in head.split(">")[-1]:
                scopes.append(("type", at, None))
                start = at + 1
            elif member and INITIALIZERS.search(head):
                scopes.append(("value", at, start))  # `: member_{...}` of a constructor, whose body is still to come
            elif ")" in head and not before.endswith("="):
                scopes.append(("function", at, None))
            else:
                scopes.append(("value", at, None))
        elif scopes:
            kind, begin, before = scopes.pop()
            if kind == "function":
                first = line_of(begin)
                found.append((first, line_of(at) - first + 1))
            if not scopes or scopes[-1][0] == "type":
                start = before if before is not None else at + 1
    return found


def without_templates(text):
    """`std::function<void(int)> f` declares no function."""
    while (fewer := re.sub(r"<[^<>;{}]*>", "", text)) != text:
        text = fewer
    return text


def members(code):
    """(name, line, functions) of every class; constructors, destructors, friends and what is deleted or defaulted do not count."""
    found, scopes, start = [], [], 0
    for match in re.finditer(r"[{};]|\b(?:public|protected|private):", code):
        at, sign = match.start(), match.group(0)
        here = scopes[-1] if scopes else None
        if sign == "}":
            if here and here["name"]:
                found.append((here["name"], here["line"], here["count"]))
            if scopes:
                scopes.pop()
            if not (scopes and scopes[-1]["name"] is None):
                start = at + 1
            continue
        text = code[start:at]
        if here and here["name"] and declares_function(text, here["name"]):
            here["count"] += 1
        if sign == "{":
            head = NAMED_TYPE.search(text + "{")
            name = head.group(1) if head and ")" not in without_templates(text).split("class")[-1] else None
            is_open = here is None or here["name"] is not None or here["namespace"]
            scope = {"name": name if is_open else None, "line": code.count("\n", 0, at) + 1, "count": 0}
            scopes.append(scope | {"namespace": is_open and re.search(r"\bnamespace\b|\bextern\b", text) is not None})
        if not scopes or scopes[-1]["name"] or scopes[-1]["namespace"]:
            start = match.end()
    return found


def declares_function(text, owner):
    text = without_templates(text).strip()
    if re.search(r"=\s*(?:delete|default)$", text) or re.match(r"(?:friend|using|typedef|static_assert|enum)\b", text):
        return False
    name = re.search(r"(operator\s*\S+?|~?\w+)\s*\(", text.split("=")[0] if "operator" not in text else text)
    return name is not None and name.group(1) not in (owner, "~" + owner, "alignas", "decltype", "noexcept")
