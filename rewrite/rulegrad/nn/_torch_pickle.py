"""The part of pickle's format that `torch.save` writes, read without the module pickle.

The opcodes are those that `pickletools` knows; here each has one meaning, on containers that the file itself makes. So
nothing in a file is called, and nothing but these containers is changed: no class, no dtype, no module can be reached.
"""

from __future__ import annotations

import pickletools
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Final, NamedTuple

_MOST_NESTED: Final = 500  # containers in each other
#: Values, each counted as often as the file's structure holds it: a tuple of two equal tuples, 40 times, is a bomb.
_MOST_VALUES: Final = 10_000_000


class DamagedError(ValueError):
    """An error in a pickle."""


class Name(NamedTuple):
    """A global that the file names: nothing but its two names."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class Built:
    """An object that gets its attributes from the file, and does nothing with them."""

    def __init__(self) -> None:
        self.attributes: dict[str, Any] = {}


class _Mark:
    """Where the items of a container begin on the stack."""


_MARK: Final = _Mark()
_SCALARS: Final = (str, bytes, int, float, bool, type(None))


def _encoded(text: str, encoding: str = "latin1") -> bytes:
    """Bytes, as protocol 2 writes them."""
    if encoding not in ("latin1", "latin-1"):
        raise DamagedError(f"bytes in the encoding {encoding!r}")
    return text.encode("latin1")


_CONTAINERS: Final[dict[Name, Callable[..., Any]]] = {
    Name("collections", "OrderedDict"): lambda pairs=(): OrderedDict(_pairs(pairs)),
    Name("collections", "Counter"): lambda counts=(): Counter(dict(_pairs(counts))),
    Name("builtins", "set"): lambda items=(): set(_keys(items)),
    Name("builtins", "frozenset"): lambda items=(): frozenset(_keys(items)),
    Name("builtins", "complex"): lambda real, imag=0.0: complex(float(real), float(imag)),
    Name("_codecs", "encode"): _encoded,
}
_CONTAINERS.update({Name("__builtin__", n.name): f for n, f in [*_CONTAINERS.items()] if n.module == "builtins"})


def _key(value: Any) -> Any:
    """A key of a dict or set: a scalar, or a tuple of scalars, so that its hash is quickly found."""
    parts = value if type(value) is tuple else (value,)
    if not all(type(part) in _SCALARS for part in parts):
        raise DamagedError(f"a {type(value).__name__} as a key")
    return value


def _keys(items: Any) -> list[Any]:
    return [_key(item) for item in _need(items, (list, tuple, set))]


def _pairs(pairs: Any) -> list[tuple[Any, Any]]:
    items = pairs.items() if isinstance(pairs, dict) else _need(pairs, (list, tuple))
    return [(_key(key), value) for key, value in items]


def _need(value: Any, kinds: type | tuple[type, ...]) -> Any:
    if not isinstance(value, kinds):
        raise DamagedError(f"a {type(value).__name__} where none belongs")
    return value


class Unpickler:
    """Reads one pickle. `constructors` are called with what the file gives them; `persistent` with references.

    A name that is neither a container nor a constructor goes to `unknown`, which gives a value or raises.
    """

    def __init__(
        self,
        constructors: Mapping[Name, Callable[..., Any]],
        persistent: Callable[[Any], Any],
        unknown: Callable[[Name], Any],
    ) -> None:
        self._constructors = {**_CONTAINERS, **constructors}
        self._persistent = persistent
        self._unknown = unknown
        self._copied = 0  # items of containers that were made from other containers
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def load(self, file: BinaryIO) -> Any:
        """The value of the pickle. Raises DamagedError, ValueError or TypeError for a damaged one."""
        for opcode, argument, _ in pickletools.genops(file):
            if opcode.name == "STOP":
                value = self._pop()
                check_size(value)
                return value
            step = _STEPS.get(opcode.name)
            if step is None:
                raise DamagedError(f"the opcode {opcode.name}, which torch.save does not write")
            step(self, argument)
        raise DamagedError("no end")

    # ---- the stack ----

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _pop(self) -> Any:
        value = self._stack.pop() if self._stack else _MARK
        if value is _MARK:
            raise DamagedError("a value is missing")
        return value

    def _top(self, kinds: type | tuple[type, ...]) -> Any:
        return _need(self._stack[-1] if self._stack else _MARK, kinds)

    def _items(self) -> list[Any]:
        """The items above the last mark, which is removed too."""
        for place in range(len(self._stack) - 1, -1, -1):
            if self._stack[place] is _MARK:
                found = self._stack[place + 1 :]
                del self._stack[place:]
                return found
        raise DamagedError("a mark is missing")

    def _drop(self, _: Any) -> None:
        """Drops an item of the stack."""

    def _last(self, count: int) -> list[Any]:
        return [self._pop() for _ in range(count)][::-1]

    # ---- opcodes ----

    def _remember(self, number: int | None) -> None:
        if not self._stack:
            raise DamagedError("a value is missing")
        self._memo[len(self._memo) if number is None else number] = self._stack[-1]

    def _recall(self, number: int) -> None:
        if number not in self._memo:
            raise DamagedError(f"value {number} is missing")
        self._push(self._memo[number])

    def _append(self, items: list[Any]) -> None:
        self._top(list).extend(items)

    def _add(self, items: list[Any]) -> None:
        self._top(set).update(_keys(items))

    def _set(self, items: list[Any]) -> None:
        self._top(dict).update(_pairs(list(zip(items[::2], items[1::2], strict=True))))

    def _named(self, name: Name) -> None:
        self._push(name if name in self._constructors else self._unknown(name))

    def _stack_name(self, _: Any) -> None:
        module, name = self._last(2)
        self._named(Name(_need(module, str), _need(name, str)))

    def _call(self, _: Any) -> None:
        name, arguments = self._last(2)
        self._copied += sum(len(part) for part in _need(arguments, tuple) if hasattr(part, "__len__"))
        if self._copied > _MOST_VALUES:
            raise DamagedError(f"more than {_MOST_VALUES:,} values, as its structure repeats them")
        self._push(self._constructors[_need(name, Name)](*arguments))

    def _build(self, _: Any) -> None:
        """The attributes of an object: of a state dict only `_metadata`, the versions of its modules."""
        state = _need(self._pop(), dict)
        owner = self._top((OrderedDict, Built))
        if isinstance(owner, Built):
            owner.attributes.update(state)
        elif "_metadata" in state:
            owner._metadata = state["_metadata"]


def _split_name(machine: Unpickler, argument: str) -> None:
    module, _, name = argument.partition(" ")
    machine._named(Name(module, name))


_Step = Callable[[Unpickler, Any], None]
_STEPS: Final[dict[str, _Step]] = {
    "PROTO": lambda machine, _: None,
    "FRAME": lambda machine, _: None,
    "MARK": lambda machine, _: machine._push(_MARK),
    "POP": lambda machine, _: machine._drop(machine._pop()),
    "POP_MARK": lambda machine, _: machine._drop(machine._items()),
    "NONE": lambda machine, _: machine._push(None),
    "NEWTRUE": lambda machine, _: machine._push(True),
    "NEWFALSE": lambda machine, _: machine._push(False),
    **dict.fromkeys(
        (
            "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE",
            "BINUNICODE8", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BINSTRING", "SHORT_BINSTRING",
        ),
        Unpickler._push,
    ),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT", "MEMOIZE"), Unpickler._remember),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), Unpickler._recall),
    "EMPTY_DICT": lambda machine, _: machine._push({}),
    "EMPTY_LIST": lambda machine, _: machine._push([]),
    "EMPTY_TUPLE": lambda machine, _: machine._push(()),
    "EMPTY_SET": lambda machine, _: machine._push(set()),
    "TUPLE": lambda machine, _: machine._push(tuple(machine._items())),
    "TUPLE1": lambda machine, _: machine._push(tuple(machine._last(1))),
    "TUPLE2": lambda machine, _: machine._push(tuple(machine._last(2))),
    "TUPLE3": lambda machine, _: machine._push(tuple(machine._last(3))),
    "LIST": lambda machine, _: machine._push(machine._items()),
    "FROZENSET": lambda machine, _: machine._push(frozenset(_keys(machine._items()))),
    "APPEND": lambda machine, _: machine._append(machine._last(1)),
    "APPENDS": lambda machine, _: machine._append(machine._items()),
    "ADDITEMS": lambda machine, _: machine._add(machine._items()),
    "SETITEM": lambda machine, _: machine._set(machine._last(2)),
    "SETITEMS": lambda machine, _: machine._set(machine._items()),
    "GLOBAL": _split_name,
    "STACK_GLOBAL": Unpickler._stack_name,
    "REDUCE": Unpickler._call,
    "NEWOBJ": Unpickler._call,
    "BUILD": Unpickler._build,
    "BINPERSID": lambda machine, _: machine._push(machine._persistent(machine._pop())),
}  # fmt: skip


def check_size(value: Any) -> None:
    """Looks through nested containers, each once. Raises DamagedError for one in itself, and for too many values.

    >>> bomb = ()
    >>> for _ in range(40):
    ...     bomb = (bomb, bomb)
    >>> check_size(bomb)
    Traceback (most recent call last):
    rulegrad.nn._torch_pickle.DamagedError: more than 10,000,000 values, as its structure repeats them
    """
    sizes: dict[int, int | None] = {}  # None: this container is being looked through
    stack: list[tuple[Any, bool]] = [(value, False)]
    open_now = 0
    while stack:
        container, is_done = stack.pop()
        parts = _parts(container)
        if is_done:
            open_now -= 1
            total = 1 + sum(sizes.get(id(part)) or 1 for part in parts)
            if total > _MOST_VALUES:
                raise DamagedError(f"more than {_MOST_VALUES:,} values, as its structure repeats them")
            sizes[id(container)] = total
        elif not parts or sizes.get(id(container)):
            continue
        elif id(container) in sizes:
            raise DamagedError("a container that holds itself")
        else:
            open_now += 1
            if open_now > _MOST_NESTED:
                raise DamagedError(f"more than {_MOST_NESTED} containers in each other")
            sizes[id(container)] = None
            stack.append((container, True))
            stack.extend((part, False) for part in parts)


def _parts(value: Any) -> list[Any]:
    if isinstance(value, Built):
        value = value.attributes
    if isinstance(value, dict):
        return [*value.values(), *([value._metadata] if hasattr(value, "_metadata") else [])]
    return list(value) if isinstance(value, (list, tuple)) else []
