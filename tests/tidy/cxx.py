"""A shallow reading of C++ for tidy.py: text without comments and literals, and its scopes.

No parser: it knows braces, semicolons and what stands before them. Good enough for the house
style, and its mistakes are seen at once because tidy runs over the whole tree.
"""
import dataclasses
import re

LITERALS = re.compile(
    r"""//[^\n]*                                # line comment
      | /\*.*?\*/                              # block comment
      | R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)"
      | "(?:\\.|[^"\\\n])*"
      | (?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'   # not the ' between digits
    """, re.DOTALL | re.VERBOSE)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
KEYWORD_BLOCK = re.compile(r"^(?:if|for|while|switch|do|else|try|catch)\b")
TYPE_BLOCK = re.compile(r"^(?:[\w\[\]]+\s+)*?(?:class|struct|union|enum)\b")


def without_literals(text):
    """Comments become blanks, literals "" or '0'; every line stays where it is."""
    def replaced(match):
        found = match[0]
        newlines = "\n" * found.count("\n")
        if found.startswith("/"):
            return newlines or " "
        return ("'0'" if found.startswith("'") else '""') + newlines
    return LITERALS.sub(replaced, text)


def without_directives(text):
    return DIRECTIVE.sub(lambda match: "\n" * match[0].count("\n"), text)


def without_groups(text, opening, closing):
    """`text` without what stands between the brackets, nested ones too."""
    out, depth = [], 0
    for char in text:
        if char == opening:
            depth += 1
        elif char == closing and depth > 0:
            depth -= 1
        elif depth == 0:
            out.append(char)
    return "".join(out)


def plain_head(text):
    """What stands before a brace or semicolon, without templates, attributes and access labels."""
    head = " ".join(text.split())
    head = re.sub(r"\b(?:public|private|protected)\s*:(?!:)", "", head)
    head = re.sub(r"\[\[.*?\]\]", "", head)
    head = re.sub(r"<=>|<<=?|>=|<=|->", " ", head)
    while re.match(r"^\s*template\s*<", head):
        start = head.index("<")
        depth = 0
        for at in range(start, len(head)):
            depth += {"<": 1, ">": -1}.get(head[at], 0)
            if depth == 0:
                break
        head = head[at + 1:]
    return without_groups(head, "<", ">").strip()


@dataclasses.dataclass
class Statement:
    """What ends with ';' or opens '{': its text, line and the kinds of the scopes around it."""
    head: str
    line: int
    scopes: tuple


@dataclasses.dataclass
class Scope:
    kind: str
    line: int
    head: str
    start: int


@dataclasses.dataclass
class Function:
    first_line: int
    last_line: int
    head: str


def kind_of_block(head, parent):
    if re.search(r"\bnamespace\b", head) or head.startswith('extern ""'):
        return "namespace"
    without_parentheses = without_groups(head, "(", ")")
    if TYPE_BLOCK.match(without_parentheses) and ")" not in head.replace("alignas(", ""):
        return "type"
    if parent not in ("namespace", "type"):
        return "block"
    if "=" in without_parentheses and "operator" not in head:
        return "value"
    if "(" in head and not KEYWORD_BLOCK.match(head):
        return "function"
    return "value"


# "Name(...) : member", "Name(...) : one(1), member": the brace that follows is a value of a member.
MEMBER_INIT = re.compile(r"\)[^()]*?(?<!:):(?!:)(?:.*,)?\s*[\w:]+$", re.DOTALL)


def continues(text, parent):
    """A brace after `text` belongs to it (an argument, a member's value) and does not end it."""
    if text.count("(") > text.count(")"):
        return True
    return parent in ("namespace", "type") and bool(MEMBER_INIT.search(text.rstrip()))


def read_scopes(code):
    """(statements, functions) of a text without literals."""
    code = without_directives(code)
    statements, functions, stack = [], [], []
    start, line, start_line = 0, 1, 1
    for match in re.finditer(r"[{};\n]", code):
        char, text = match[0], code[start:match.start()]
        if char == "\n":
            line += 1
            if not text.strip():
                start_line = line
            continue
        parent = stack[-1].kind if stack else "namespace"
        if char == "{" and continues(text, parent):
            stack.append(Scope("inner", start_line, "", start))
            start, start_line = match.end(), line
            continue
        head = plain_head(text)
        if char != "}" and head:
            statements.append(Statement(head, start_line, tuple(scope.kind for scope in stack)))
        if char == "{":
            stack.append(Scope(kind_of_block(head, parent), start_line, head, match.end()))
        closed = stack.pop() if char == "}" and stack else None
        if closed and closed.kind == "inner":
            start, start_line = closed.start, closed.line
            continue
        if closed and closed.kind == "function":
            functions.append(Function(closed.line, line, closed.head))
        start, start_line = match.end(), line
    return statements, functions


NO_VARIABLE = re.compile(
    r"^(?:using|typedef|static_assert|friend|namespace|class|struct|enum|union|extern \"\"|"
    r"return|goto|break|continue|case|default|template|concept|requires|public|private|"
    r"protected)\b")


def is_mutable(head, starts):
    """A declaration of a variable that can change; `starts` = words one of which it must have."""
    if NO_VARIABLE.match(head) or "operator" in head:
        return False
    if re.search(r"\b(?:const|constexpr|consteval)\b", head):
        return False
    if starts and not re.search(rf"\b(?:{starts})\b", head):
        return False
    name = head.split("=", 1)[0]
    return "(" not in name and ")" not in name and len(name.split()) >= 2


def mutable_globals(statements, thread_locals_allowed):
    """Statements that make state outlive its objects: globals, static members, static locals."""
    for statement in statements:
        scopes = set(statement.scopes)
        if {"value", "inner"} & scopes:
            continue
        if thread_locals_allowed and "thread_local" in statement.head:
            continue
        if scopes <= {"namespace"} and is_mutable(statement.head, ""):
            yield statement
        elif is_mutable(statement.head, "static|thread_local"):
            yield statement
