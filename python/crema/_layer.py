"""Layers in Python that declare what they need: `@crema.layer`."""

from __future__ import annotations

import re
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from . import _core
from ._errors import Error

Class = TypeVar("Class", bound=type)
Names = str | Sequence[str]
_REACHES = ("all", "sample", "place", "element")


class Spec(NamedTuple):
    """A bottom, as `infer` and `parameters` see it."""

    shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        return len(self.shape)


class _Facts(NamedTuple):
    backward_reads: tuple[str, ...]
    no_gradient: tuple[str, ...]
    shared: tuple[str, ...]
    in_place: bool
    reach: int
    moves_only: bool
    constant: bool
    torch: bool
    autograd: bool
    has_backward: bool
    takes_out: bool


@typing.overload
def layer(cls: Class, /) -> Class: ...
@typing.overload
def layer(
    *,
    backward_reads: Names = ...,
    in_place: bool = ...,
    reach: str = ...,
    shared: Names = ...,
    moves_only: bool = ...,
    constant: bool = ...,
    no_gradient: Names = ...,
    tensors: str = ...,
) -> Callable[[Class], Class]: ...
def layer(
    cls: Class | None = None,
    /,
    *,
    backward_reads: Names = (),
    in_place: bool = False,
    reach: str = "all",
    shared: Names = (),
    moves_only: bool = False,
    constant: bool = False,
    no_gradient: Names = (),
    tensors: str = "numpy",
) -> Any:
    """Makes a class the layer of `type: "Python"`, planned like a built-in one.

    The class has `forward(self, *bottoms, **parameters)`, which returns an array for each top or
    fills `out` if it has an argument of that name; and, as needed,

    - `infer(self, *bottoms)`: returns the shape of the top, or a list of shapes; each bottom has
      `.shape`. Without it every top has the shape of the first bottom.
    - `backward(self, *gradients, *read, **parameters)`: takes the gradient of each top, then what
      `backward_reads` names, in that order. Returns a gradient (or None: zero) for each bottom and
      then for each parameter.
    - `parameters(self, *bottoms)`: returns a dict of what a solver trains: name to shape, or to
      (shape, filler); a filler is a number, a type ("xavier"), or the fields of a FillerParameter
      as a dict.

    Fields of the class are set from `param_str`, a JSON object or a Python dict.

    The names below are "bottom" or "top" for all of them, or "bottom[1]".

    backward_reads: memory that backward reads; the plan may reuse the rest.
    in_place: the first top may lie in the memory of the first bottom. Backward cannot read that.
    reach: what an element of a top depends on: "all", only its "sample" (axis 0), only the elements
        at its "place" of the channel, or on these in the same way for each "element".
    shared: bottoms that `reach` does not cover: every sample depends on all of them.
    moves_only: each element of a top is one of a bottom, or a constant.
    constant: tops do not depend on the elements of bottoms.
    no_gradient: bottoms that never get one, such as labels. A class without backward: all.
    tensors: "numpy", or "torch": tensors over the same memory. Without a backward method, autograd
        computes the gradients: where a backward pass follows, forward gets copies instead, and
        its graph is kept until the next pass.

    The arrays belong to the net: copy what you keep. One object may compute in several threads.
    `check_layer` tests all these claims. Throws ValueError for claims that contradict each other.
    """

    import dataclasses
    import inspect

    def decorate(of: Class) -> Class:
        reads, labels = _names(backward_reads), _names(no_gradient)
        if tensors not in ("numpy", "torch"):
            raise ValueError(f'tensors is {tensors!r}, expected "numpy" or "torch"')
        if reach not in _REACHES:
            raise ValueError(f"reach is {reach!r}, expected one of {', '.join(_REACHES)}")
        if not callable(getattr(of, "forward", None)):
            raise ValueError(f"{of.__name__} has no method forward")
        has_backward = callable(getattr(of, "backward", None))
        autograd = tensors == "torch" and not has_backward
        if autograd and not reads:
            reads = ("bottom",)
        if reads and not has_backward and not autograd:
            raise ValueError(f"{of.__name__} has backward_reads, but no method backward")
        if in_place and ("bottom" in reads or "bottom[0]" in reads):
            raise ValueError("a layer in place overwrites bottom[0], which backward_reads names")
        if autograd and "bottom" not in reads:
            raise ValueError("autograd reads all bottoms: leave backward_reads out")
        facts = _Facts(
            backward_reads=reads,
            no_gradient=labels,
            shared=_names(shared),
            in_place=in_place,
            reach=_REACHES.index(reach),
            moves_only=moves_only,
            constant=constant,
            torch=tensors == "torch",
            autograd=autograd,
            has_backward=has_backward or autograd,
            takes_out="out" in inspect.signature(getattr(of, "forward")).parameters,
        )
        made = of
        if "__init__" not in vars(of) and not dataclasses.is_dataclass(of):
            made = typing.cast(Class, dataclasses.dataclass(eq=False)(of))
        fields = getattr(made, "__dataclass_fields__", {})
        for name in ("param_str", "phase", "name"):  # Adapter sets them
            if name in fields or hasattr(made, name):
                raise ValueError(f"{of.__name__}.{name} would be overwritten: every layer has a {name}")
        setattr(made, "__crema_layer__", facts)
        return made

    return decorate if cls is None else decorate(cls)


def _names(names: Names) -> tuple[str, ...]:
    all_names = (names,) if isinstance(names, str) else tuple(names)
    for name in all_names:
        if not re.fullmatch(r"(bottom|top)(\[\d+\])?", name):
            raise ValueError(f'{name!r} is not "bottom", "top", "bottom[0]" or the like')
    return all_names


def _expand(names: tuple[str, ...], counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Returns ("bottom", 0), ... for names such as "bottom"."""
    places: list[tuple[str, int]] = []
    for name in names:
        kind, _, index = name.rstrip("]").partition("[")
        if index and int(index) >= counts[kind]:
            raise ValueError(f"the class names {name}, and the layer has {counts[kind]} {kind}s")
        places += [(kind, int(index))] if index else [(kind, i) for i in range(counts[kind])]
    return places


def _fields(cls: type, text: str) -> dict[str, Any]:
    """Returns the fields that a param_str sets."""
    if not text.strip():
        return {}
    import ast
    import json

    values: Any
    try:
        values = json.loads(text)
    except ValueError:
        try:
            values = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            values = None
    if not isinstance(values, dict):
        raise ValueError(f"param_str is neither a JSON object nor a Python dict: {text!r}")
    hints = typing.get_type_hints(cls)
    for name, value in values.items():
        kind = hints.get(name)
        if kind is float and type(value) is int:
            values[name] = float(value)
        elif isinstance(kind, type) and (
            not isinstance(value, kind) or (kind is int and isinstance(value, bool))
        ):
            raise ValueError(f"param_str: {name} is {value!r}, expected {kind.__name__}")
    return values


def _shapes(given: Any) -> list[tuple[int, ...]]:
    """Returns the shapes that infer means: one, or a list of them."""
    import numpy as np

    if given is None:
        return []
    try:
        items = list(given)
        if all(isinstance(size, (int, np.integer)) for size in items) and given != []:
            return [tuple(int(size) for size in items)]
        return [tuple(int(size) for size in shape) for shape in items]
    except (TypeError, ValueError):
        raise TypeError(f"infer returned {given!r}, expected a shape or a list of shapes") from None


def _filler(given: Any) -> str:
    """Returns the text of a FillerParameter."""
    import json

    if isinstance(given, (int, float)):
        given = {"type": "constant", "value": given}
    if isinstance(given, str):
        given = {"type": given}
    if not isinstance(given, Mapping):
        raise TypeError(f"a filler is {given!r}, expected a number, a type or a dict of fields")
    return " ".join(
        f"{name}: {value if name == 'variance_norm' else json.dumps(value)}"
        for name, value in given.items()
    )


class Adapter:
    """The functions that the extension module calls for an object of a declared class."""

    def __init__(self, cls: type, param_str: str, phase: int, name: str) -> None:
        self.facts: _Facts = getattr(cls, "__crema_layer__")
        self.object: Any = cls(**_fields(cls, param_str))
        self.object.param_str, self.object.phase, self.object.name = param_str, phase, name
        # By a number for the session: leaves and tops of the last forward pass.
        self.graphs: dict[int, tuple[list[Any], tuple[Any, ...]]] = {}
        self.roles: list[str] = []
        self.reads: list[tuple[str, int]] = []

    def infer(self, shapes: list[tuple[int, ...]], tops: int) -> dict[str, Any]:
        import numpy as np

        facts, counts = self.facts, {"bottom": len(shapes), "top": tops}
        specs = [Spec(shape) for shape in shapes]
        if hasattr(self.object, "infer"):
            outputs = _shapes(self.object.infer(*specs))
        elif shapes:
            outputs = [shapes[0]] * tops
        else:
            raise ValueError(f"{type(self.object).__name__} has no bottoms, and no method infer")
        if len(outputs) != tops:
            raise ValueError(f"infer returned {len(outputs)} shapes, and the layer has {tops} tops")
        parameters = []
        if hasattr(self.object, "parameters"):
            roles = self.object.parameters(*specs)
            if not isinstance(roles, Mapping):
                raise TypeError(f"parameters returned {roles!r}, expected a dict of shapes")
            for role, given in roles.items():
                plain = all(isinstance(size, (int, np.integer)) for size in given)
                shape, filler = (given, 0) if plain else given
                parameters.append((role, tuple(int(size) for size in shape), _filler(filler)))
        if parameters and not facts.has_backward:
            raise ValueError(f"{type(self.object).__name__} has parameters, but no method backward")
        self.reads = _expand(facts.backward_reads, counts)
        self.roles = [role for role, _, _ in parameters]

        def flags(places: list[tuple[str, int]], kind: str) -> list[bool]:
            return [(kind, i) in places for i in range(counts[kind])]

        labels = _expand(facts.no_gradient, counts)
        return {
            "outputs": outputs,
            "parameters": parameters,
            "reads_bottom": flags(self.reads, "bottom"),
            "reads_top": flags(self.reads, "top"),
            "no_gradient": [g or not facts.has_backward for g in flags(labels, "bottom")],
            "shared": flags(_expand(facts.shared, counts), "bottom"),
            "autograd": facts.autograd,
            "in_place": facts.in_place,
            "reach": facts.reach,
            "moves_only": facts.moves_only,
            "constant": facts.constant,
        }

    def forward(
        self, bottoms: list[Any], tops: list[Any], parameters: list[Any], place: int
    ) -> None:
        """`place` is not 0 if a backward pass with the same number may follow."""
        before = _counts(bottoms, tops, parameters)
        self._forward(bottoms, tops, parameters, place)
        if _counts(bottoms, tops, parameters) > before:
            self._refuse_kept("forward")

    def backward(
        self,
        gradients: list[Any],
        bottoms: list[Any],
        tops: list[Any],
        parameters: list[Any],
        bottom_gradients: list[Any],
        parameter_gradients: list[Any],
        place: int,
    ) -> None:
        """Sets the gradients of bottoms and adds to those of parameters; None: not needed."""
        before = _counts(gradients, bottoms, tops, parameters)
        self._backward(
            gradients, bottoms, tops, parameters, bottom_gradients, parameter_gradients, place
        )
        if _counts(gradients, bottoms, tops, parameters) > before:
            self._refuse_kept("backward")

    def _refuse_kept(self, method: str) -> None:
        raise ValueError(
            f"{method} of {type(self.object).__name__} keeps an array, whose memory the net uses "
            "for other values later: keep a copy, or name it in backward_reads"
        )

    def _forward(
        self, bottoms: list[Any], tops: list[Any], parameters: list[Any], place: int
    ) -> None:
        self.graphs.pop(place, None)
        if self.facts.autograd and place:
            self.graphs[place] = self._record(bottoms, tops, parameters)
            values = tuple(value.detach() for value in self.graphs[place][1])
            for top, value in zip(tops, self._results("forward", values, tops, "top")):
                top[...] = value
            return
        inputs = [self._input(bottom) for bottom in bottoms]
        named = dict(zip(self.roles, map(self._input, parameters)))
        if self.facts.takes_out:
            outs = tuple(self._tensor(top) for top in tops)
            named["out"] = outs[0] if len(outs) == 1 else outs
        if self.facts.torch:
            with _torch().no_grad():
                given = self.object.forward(*inputs, **named)
        else:
            given = self.object.forward(*inputs, **named)
        if not self.facts.takes_out:
            for top, value in zip(tops, self._results("forward", given, tops, "top")):
                top[...] = value

    def _backward(
        self,
        gradients: list[Any],
        bottoms: list[Any],
        tops: list[Any],
        parameters: list[Any],
        bottom_gradients: list[Any],
        parameter_gradients: list[Any],
        place: int,
    ) -> None:
        given = [self._input(gradient) for gradient in gradients]
        targets = bottom_gradients + parameter_gradients
        values: Any
        if self.facts.autograd:
            if place not in self.graphs:  # no forward pass came before
                self.graphs[place] = self._record(bottoms, gradients, parameters)
            values = tuple(self._differentiate(place, given, [t is not None for t in targets]))
        else:
            of = {"bottom": bottoms, "top": tops}
            read = [self._input(of[kind][index]) for kind, index in self.reads]
            named = {role: self._input(value) for role, value in zip(self.roles, parameters)}
            values = self.object.backward(*given, *read, **named)
        results = self._results("backward", values, targets, "gradient")
        # The gradient of bottom 0 may lie on that of a top, which a value may be: it comes last.
        for index in reversed(range(len(targets))):
            target, value = targets[index], results[index]
            if target is None:
                continue
            if index >= len(bottoms):
                target += 0 if value is None else value
            else:
                target[...] = 0 if value is None else value

    def _record(
        self, bottoms: list[Any], tops: list[Any], parameters: list[Any]
    ) -> tuple[list[Any], tuple[Any, ...]]:
        """Runs forward on copies. Returns them and the tops, with the graph; `tops` give shapes."""
        torch = _torch()
        with torch.inference_mode(False), torch.enable_grad():
            leaves = [torch.from_numpy(array).clone() for array in [*bottoms, *parameters]]
            for leaf in leaves:
                leaf.requires_grad_()
            count = len(bottoms)
            named: dict[str, Any] = dict(zip(self.roles, leaves[count:]))
            outs = tuple(torch.empty(top.shape, dtype=leaves[0].dtype) for top in tops)
            if self.facts.takes_out:
                named["out"] = outs[0] if len(outs) == 1 else outs
            given = self.object.forward(*leaves[:count], **named)
        if self.facts.takes_out:
            return leaves, outs
        values = given if isinstance(given, tuple) else () if given is None else (given,)
        return leaves, values

    def _differentiate(self, place: int, gradients: list[Any], wanted: list[bool]) -> list[Any]:
        """Returns the gradient of each leaf of the last forward pass, or None."""
        torch = _torch()
        leaves, tops = self.graphs[place]
        pairs = [(top, g) for top, g in zip(tops, gradients) if top.requires_grad]
        of = [leaf for leaf, is_wanted in zip(leaves, wanted) if is_wanted]
        if not pairs or not of:
            return [None] * len(leaves)
        found = iter(
            torch.autograd.grad(
                [top for top, _ in pairs],
                of,
                [g for _, g in pairs],
                retain_graph=True,  # a program may run backward again
                allow_unused=True,
            )
        )
        return [next(found) if is_wanted else None for is_wanted in wanted]

    def _tensor(self, array: Any) -> Any:
        return _torch().from_numpy(array) if self.facts.torch else array

    def _input(self, array: Any) -> Any:
        if not self.facts.torch and array is not None:
            array.flags.writeable = False
        return self._tensor(array)

    def _results(self, method: str, given: Any, targets: list[Any], what: str) -> list[Any]:
        """Returns an array (or None) for each target, of its shape."""
        values = given if isinstance(given, tuple) else () if given is None else (given,)
        where = f"{method} of {type(self.object).__name__}"
        if len(values) != len(targets):
            raise ValueError(f"{where} returned {len(values)} arrays, expected {len(targets)}")
        arrays = [None if v is None else self._array(v) for v in values]
        for index, (array, target) in enumerate(zip(arrays, targets)):
            if array is not None and array.dtype.kind not in "biuf":
                raise TypeError(f"{where} returned {array.dtype} for {what} {index}, not numbers")
            if array is None and method == "forward":
                raise ValueError(f"{where} returned None for {what} {index}")
            if array is not None and target is not None and array.shape != target.shape:
                raise ValueError(
                    f"{where} returned an array of shape {array.shape} for {what} {index}, "
                    f"which has {target.shape}"
                )
        return arrays

    def _array(self, value: Any) -> Any:
        import numpy as np

        return value.detach().cpu().numpy() if self.facts.torch else np.asarray(value)


def _torch() -> Any:
    from importlib import import_module

    return import_module("torch")


def _counts(*lists: list[Any]) -> int:
    """Returns the number of references to arrays."""
    return sum(sys.getrefcount(array) for arrays in lists for array in arrays if array is not None)


def check_layer(
    layer: type | str,
    bottoms: Sequence[Sequence[int] | Mapping[str, Any]],
    *,
    tops: int = 1,
    text: str = "",
    phase: int = 0,
    **fields: Any,
) -> None:
    """Tests what a layer computes and what it claims, as the tests of Crema do with every layer.

    On random inputs it compares gradients with differences in float64, and checks shapes, that
    backward reads only what is declared, that inputs are not changed, in place against out of
    place, float32 against float64, one thread against several, and `reach`, `moves_only` and
    `constant` in both directions: a claim that holds but is not made is an error too.

    layer: a class with `@crema.layer`, or the name of a layer type.
    bottoms: a shape each, or a dict of `shape`, `low` and `high` (-1 and 1), `integer` (whole
        numbers: labels), `distinct` (no two values are close: maxima), `kink` (no value is close to
        this one, where the layer has no derivative).
    text: fields of the layer as in a net's text. phase: 0 is TRAIN, 1 TEST.
    fields: of the class.

    Throws crema.Error; `problems` has one for each fault. Any number of threads may call it.
    """
    import json

    samples = []
    for bottom in bottoms:
        sample: dict[str, Any] = dict(bottom) if isinstance(bottom, Mapping) else {"shape": bottom}
        unknown = sample.keys() - {"shape", "low", "high", "integer", "distinct", "kink"}
        if unknown:
            raise TypeError(f"a bottom has no field {sorted(unknown)[0]!r}")
        low, high = (0, 2) if sample.get("integer") else (-1, 1)
        samples.append(
            (
                tuple(int(size) for size in sample["shape"]),
                float(sample.get("low", low)),
                float(sample.get("high", high)),
                bool(sample.get("integer", False)),
                bool(sample.get("distinct", False)),
                None if sample.get("kink") is None else float(sample["kink"]),
            )
        )
    gradient = True
    if not isinstance(layer, str):
        facts = getattr(layer, "__crema_layer__", None)
        if facts is None:
            raise TypeError(f"{layer!r} is neither a class with @crema.layer nor a layer type")
        gradient = facts.has_backward
        text += f" python_param {{ param_str: {json.dumps(json.dumps(fields))} }}"
    elif fields:
        raise TypeError("give the fields of a built-in layer as text")
    failures = _core.check_layer(layer, samples, tops, text, phase, gradient)
    if not failures:
        return
    problems = [_fault(failure) for failure in failures]
    error = Error("\n".join(map(str, problems)))
    error.problems = problems
    raise error


def _fault(text: str) -> Error:
    """Returns an error with a message of the checker in the words of `@crema.layer`."""
    text = re.sub(r"\bReach::k(\w+)", lambda match: f'"{match[1].lower()}"', text)
    for word, here in (("info.", ""), ("= true", "= True"), ("shared_inputs", "shared")):
        text = text.replace(word, here)
    return Error(text)


def make(module: str, name: str) -> Any:
    """Returns the class of a net's python_param."""
    from importlib import import_module

    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if not isinstance(found, type):
        raise TypeError(f"{module}.{name} is {type(found).__name__}, expected a class")
    takes_none = any("__init__" in vars(base) for base in found.__mro__[:-1])
    if not hasattr(found, "__crema_layer__") and not takes_none:
        raise TypeError(
            f"{module}.{name} is no layer: derive it from caffe.Layer (setup, reshape, forward, "
            "backward), or decorate it with @crema.layer"
        )
    return found
