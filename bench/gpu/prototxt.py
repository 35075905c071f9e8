"""Prototxt as nested lists: what of it a net of models/ needs, without protobuf."""
import re

_TOKEN = re.compile(r'#[^\n]*|"[^"]*"|\'[^\']*\'|[{}:]|[^\s{}:;,"\']+')


class Message:
    """Fields in order: (name, value), a value being a number, a string, a bool or a Message."""

    def __init__(self, fields):
        self.fields = fields

    def all(self, name):
        return [value for key, value in self.fields if key == name]

    def get(self, name, default=None):
        values = self.all(name)
        return values[-1] if values else default

    def sub(self, name):
        """An empty message where there is none."""
        return self.get(name, Message([]))


def _value(token):
    if token[0] in "\"'":
        return token[1:-1]
    if token in ("true", "false"):
        return token == "true"
    try:
        return int(token)
    except ValueError:
        pass
    try:
        return float(token)
    except ValueError:
        return token


def _fields(tokens):
    fields = []
    for token in tokens:
        if token == "}":
            break
        following = next(tokens)
        if following == ":":
            following = next(tokens)
        if following == "{":
            fields.append((token, Message(_fields(tokens))))
        else:
            fields.append((token, _value(following)))
    return fields


def parse(text):
    return Message(_fields(token for token in _TOKEN.findall(text) if token[0] != "#"))


def _applies(layer, phase):
    included = [rule.get("phase") for rule in layer.all("include")]
    excluded = [rule.get("phase") for rule in layer.all("exclude")]
    return (not included or phase in included) and phase not in excluded


def layers(text, phase):
    """Returns the layers of a phase, TRAIN or TEST."""
    return [layer for layer in parse(text).all("layer") if _applies(layer, phase)]
