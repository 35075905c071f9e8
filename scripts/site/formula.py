"""Converts formulas of the layer registry, which are plain text, to MathML.

MathML needs no scripts and no fonts. What is not wholly an equation (a word of prose, "..") is not
converted: the page then shows the text.
"""

import html
import re

GREEK = dict(alpha="α", beta="β", gamma="γ", lambda_="λ", sigma="σ", pi="π", psi="ψ", eps="ε")
FUNCTIONS = {"max", "min", "exp", "log", "ln", "tanh", "sin", "cos", "sigmoid", "softmax", "floor",
             "ceil", "mean", "argmax", "sum", "prod", "sqrt", "mean", "var", "smooth_l1"}
NAMES = {"loss", "mean", "var", "scale", "shift", "bias", "power", "base", "index", "factor"}
SIGNS = {"*": "·", "-": "−", "<=": "≤", ">=": "≥", "!=": "≠"}
TOKEN = re.compile(r"\s*([A-Za-z][A-Za-z0-9_]*'?|\d+(?:\.\d+)?(?:e-?\d+)?|<=|>=|!=|[-+*/^()\[\],=<>|])")


class NotAnEquation(Exception):
    pass


def row(*parts):
    return "<mrow>" + "".join(parts) + "</mrow>"


def fence(left, inside, right):
    """Brackets, which grow around what is high only."""
    grow = "" if "<mfrac>" in inside or "<munder>" in inside else " stretchy='false'"
    return row(f"<mo{grow}>{left}</mo>", inside, f"<mo{grow}>{right}</mo>")


def op(sign):
    return f"<mo>{html.escape(SIGNS.get(sign, sign))}</mo>"


class Parser:
    def __init__(self, text, names):
        self.tokens, self.names, self.at, place = [], names | NAMES, 0, 0
        while text[place:].strip():
            match = TOKEN.match(text, place)
            if not match:
                raise NotAnEquation(text[place:])
            self.tokens.append(match.group(1))
            place = match.end()

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, wanted=None):
        token = self.peek()
        if not token or (wanted and token != wanted):
            raise NotAnEquation(token)
        self.at += 1
        return token

    def equation(self):
        """a = b, or with cases: y = a where c, b where d, e elsewhere."""
        left = self.sum()
        while self.peek() in ("=", "<", ">", "<=", ">=", "!="):
            sign = op(self.take())
            right = self.sum()
            if self.peek() == "where":
                right = self.cases(right)
            left = row(left, sign, right)
        return left

    def cases(self, value):
        lines = []
        while self.peek():
            if self.peek() == "elsewhere":
                self.take()
                condition = "<mtext>elsewhere</mtext>"
            else:
                self.take("where")
                condition = row("<mtext>where&nbsp;</mtext>", self.equation())
            lines.append(f"<mtr><mtd>{value}</mtd><mtd>{condition}</mtd></mtr>")
            if self.peek():
                self.take(",")
                value = self.sum()
        return row(op("{"), "<mtable>" + "".join(lines) + "</mtable>")

    def sum(self):
        value = row(op(self.take()), self.product()) if self.peek() == "-" else self.product()
        while self.peek() in ("+", "-"):
            value = row(value, op(self.take()), self.product())
        return value

    def product(self):
        value = self.power()
        while True:
            token = self.peek()
            if token == "*":
                value = row(value, op(self.take()), self.power())
            elif token == "/":
                self.take()
                value = f"<mfrac>{value}{self.power()}</mfrac>"
            elif token and (token[0].isalnum() and token not in ("where", "elsewhere") or token == "("):
                value = row(value, "<mspace width='0.2em'/>", self.power())
            else:
                return value

    def power(self):
        value = self.primary()
        if self.peek() != "^":
            return value
        self.take()
        minus = op(self.take()) if self.peek() == "-" else ""
        return f"<msup>{row(value)}{row(minus, self.primary())}</msup>"

    def listed(self, end):
        parts = [self.equation()]
        while self.peek() == ",":
            parts += [op(self.take()), self.equation()]
        self.take(end)
        return row(*parts)

    def primary(self):
        token = self.take()
        if token[0].isdigit():
            return f"<mn>{token}</mn>"
        if token == "(":
            return fence("(", self.listed(")"), ")")
        if token == "|":
            return fence("|", self.listed("|"), "|")
        if not token[0].isalpha():
            raise NotAnEquation(token)
        whole = token in self.names and not re.fullmatch(r"[A-Za-z]_\w", token)
        name, _, low = (token, "", "") if whole else token.partition("_")
        if name in ("sum", "prod") or name in FUNCTIONS and (self.peek() == "(" or low):
            return self.function(name, low)
        if name in ("ln", "log", "cos", "sin"):
            return row(f"<mi>{name}</mi>", "<mspace width='0.2em'/>", self.power())
        value = self.name(name)
        if low:
            value = f"<msub>{value}<mi>{low}</mi></msub>"
        if self.peek() == "[":
            self.take()
            value = f"<msub>{value}{self.listed(']')}</msub>"
        return value

    def name(self, name):
        symbol = GREEK.get(name.replace("lambda", "lambda_"))
        if symbol or len(name.rstrip("'")) == 1:
            return f"<mi>{symbol or name}</mi>"
        if name not in self.names:
            raise NotAnEquation(name)
        return f"<mtext>{name}</mtext>"

    def function(self, name, low):
        if name in ("sum", "prod"):
            sign = "<mo>∑</mo>" if name == "sum" else "<mo>∏</mo>"
            under = f"<munder>{sign}<mi>{low}</mi></munder>" if low else sign
            return row(under, self.power() if self.peek() in ("(", "|") else self.product())
        if name == "sqrt":
            self.take("(")
            return f"<msqrt>{self.listed(')')}</msqrt>"
        head = f"<msub><mi>{name}</mi><mi>{low}</mi></msub>" if low else f"<mi>{name}</mi>"
        self.take("(")
        return row(head, fence("(", self.listed(")"), ")"))


def convert(part, names):
    label, colon, rest = part.partition(": ")
    if colon and not re.fullmatch(r"[A-Z][A-Z0-9_]*", label):
        raise NotAnEquation(label)
    parser = Parser(rest if colon else part, names)
    body = parser.equation()
    while parser.peek() == ",":  # several equations
        body = row(body, op(parser.take()), "<mspace width='0.5em'/>", parser.equation())
    if parser.peek():
        raise NotAnEquation(parser.peek())
    head = f"<mtext>{label}:&nbsp;&nbsp;</mtext>" if colon else ""
    return f'<p class="formula"><math displaystyle="true">{head}{body}</math></p>'


def to_mathml(text, names):
    """The formula as HTML: equations as MathML, what is said about them as text. None if the first
    part is not an equation. `names`: words that are variables of it."""
    lines = []
    for part in re.split(r"; |\. (?=[A-Z])", text):
        try:
            lines.append(convert(part, names))
        except NotAnEquation:
            if not lines:
                return None
            text_of = f"<code>{html.escape(part)}</code>" if " = " in part else html.escape(part)
            lines.append(f'<p class="formula">{text_of}</p>')
    return "\n".join(lines)
