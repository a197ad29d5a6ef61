"""Named tuples of arrays that are indexed as one array, and functions over trees of them.

    class Step(NamedArrayTuple):            # the typed form
        observation: Array
        reward: Array
        info: Array = ()

    Camera = namedarraytuple("Camera", ["image", "depth"])      # the dynamic form

    steps[t]                # a Step: every field read at t
    steps[t] = step         # every field written at t

A field holds a NumPy array, a tensor, a nested tree, None (not there) or () (nothing to hold);
None and () pass through every operation. A tree is a NamedArrayTuple, tuple, list or dict of
trees, or a leaf: anything else. Torch is imported by the functions that need it, not by this file.
"""

import copyreg
import functools
import keyword
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Self, TypeAlias, TypeVar, dataclass_transform

import numpy as np

Array: TypeAlias = Any  # an array, a tensor, or a tree of them: who holds the tuple decides which
Tree: TypeAlias = Any
T = TypeVar("T")

_CONTAINERS = frozenset({type(None), tuple, list, dict})  # not indexed themselves
_METHODS = frozenset({"items", "replace"})
_create = object.__new__

# A line (two when writing) for each field, so that the line which raised tells the field and the
# fast path pays nothing. Fields never begin with an underscore: the other names are free.
_INIT = "def __init__(_self, {}):\n    {}"
_ITER = "def __iter__(_self):\n    return iter(({}))"
_READ = """\
def __getitem__(_self, _loc):
    try:
        _new = _create(_self.__class__)
        {}
        return _new
    except Exception as _error:
        _name_field(_error, _self._fields[_error.__traceback__.tb_lineno - 4])
        raise
"""
_READ_FIELD = (
    "_new.{0} = _v[_loc] if type(_v := _self.{0}) not in _CONTAINERS else _v and _read(_v, _loc)"
)
_WRITE = """\
def __setitem__(_self, _loc, _value):
    if type(_value) is not type(_self):
        return _write(_self, _loc, _value)
    try:
        {}
    except Exception as _error:
        _name_field(_error, _self._fields[(_error.__traceback__.tb_lineno - 5) // 2])
        raise
"""
_WRITE_FIELD = (
    "if type(_v := _value.{0}) not in _CONTAINERS and type(_t := _self.{0}) not in _CONTAINERS: "
    "_t[_loc] = _v\n        else: _write(_self.{0}, _loc, _v)"
)


class _FieldsToSlots(type):
    """Turns the annotations of a class body into slots and unrolled methods."""

    _fields: tuple[str, ...]
    _defaults: dict[str, Any]
    _dynamic: bool

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], dynamic: bool = False
    ) -> "_FieldsToSlots":
        """Make the class; annotated names of its body are its fields, assigned ones optional."""
        if not bases:  # NamedArrayTuple itself has no fields
            return super().__new__(cls, name, bases, {"__slots__": (), **namespace})
        own = tuple(_annotations(namespace))
        fields = bases[0]._fields + own
        defaults = bases[0]._defaults | {f: namespace.pop(f) for f in own if f in namespace}
        _check_fields(name, fields, defaults)
        body = {"__slots__": own, "_fields": fields, "_defaults": defaults, "_dynamic": dynamic}
        body |= _methods(name, fields, defaults) | namespace
        made = super().__new__(cls, name, bases, body)
        _unregistered.append(made)
        if "torch" in sys.modules:
            register_with_torch()
        return made


@dataclass_transform(frozen_default=True)  # rebinding a field of a view would be lost: checkers say
class NamedArrayTuple(metaclass=_FieldsToSlots):
    """A tuple with named fields whose indexing goes to every field; subclass it with annotations.

    It unpacks, iterates and nests like a tuple but is none: torch.compile reads a subclass of tuple
    through `x[i]`, which here means indexing every array.
    """

    _fields: ClassVar[tuple[str, ...]] = ()
    _defaults: ClassVar[dict[str, Any]] = {}

    def __getitem__(self, loc: Any) -> Self:
        """Read every field at `loc`; views where the fields give views."""
        raise NotImplementedError  # this and the next two are generated for each class

    def __setitem__(self, loc: Any, value: Any) -> None:
        """Write every field at `loc`: from the same structure, or one value for all.

        Nothing is written where this or `value` holds None or ().
        """
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._fields)

    def items(self) -> list[tuple[str, Any]]:
        """Pairs of a field's name and its value."""
        return list(zip(self._fields, self, strict=True))

    def replace(self, /, **changes: Any) -> Self:
        """Return a copy that holds `changes` in place of the fields of these names."""
        return type(self)(**(dict(self.items()) | changes))

    def __eq__(self, other: object) -> bool:
        """Whether both are of one class and hold the very same leaves at the same places."""
        places = [[(path, id(leaf)) for path, leaf in tree_items(tree)] for tree in (self, other)]
        return type(self) is type(other) and places[0] == places[1]

    def __array__(self, *_: Any, **__: Any) -> Any:
        # NumPy would take it for a sequence of numbers.
        raise TypeError(f"a {type(self).__name__} is no array; use its fields {self._fields}")

    def __reduce__(self) -> tuple[Any, ...]:
        kind = type(self)
        if kind._dynamic:  # by name: picklers of scripts would send a class of their own making
            return _remade, (kind.__name__, kind._fields, *self)
        return kind, tuple(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={_outline(v)}' for k, v in self.items())})"


def namedarraytuple(name: str, fields: Iterable[str]) -> type[Any]:
    """Return the NamedArrayTuple of this name and fields, always the same class for the same ones.

    Its instances, and itself, unpickle in a process that never made it.
    """
    if isinstance(fields, str):
        raise TypeError(f"fields={fields!r} is one string; give a list of names")
    return _dynamic(name, tuple(fields))


def is_field_name(name: object) -> bool:
    """Whether `name` can name a field: an identifier, public, and no method of the class."""
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        return False
    return not name.startswith("_") and name not in _METHODS


def tree_map(function: Callable[..., Any], tree: Tree, *others: Tree) -> Any:
    """Apply `function` to every leaf of `tree`, with the leaves of `others` at the same places.

    The result has the structure of `tree`. An error names the leaf at which it was raised.
    """
    children = _children(tree)
    if children is None:
        return function(tree, *others)
    if not children:
        return tree
    beside = [_matching(children, other) for other in others]
    mapped = {}
    for key, child in children.items():
        try:
            mapped[key] = tree_map(function, child, *[other[key] for other in beside])
        except Exception as error:
            _name_field(error, key)
            raise
    if type(tree) is dict:
        return mapped
    return (
        type(tree)(mapped.values()) if type(tree) in _CONTAINERS else type(tree)(*mapped.values())
    )


def tree_items(tree: Tree) -> list[tuple[str, Any]]:
    """Pairs of dotted path (`observation.camera`, `state.0`) and leaf, in the order of fields."""
    children = _children(tree)
    if children is None:
        return [("", tree)]
    return [
        (f"{key}.{path}" if path else str(key), leaf)
        for key, child in children.items()
        for path, leaf in tree_items(child)
    ]


def tree_leaves(tree: Tree) -> list[Any]:
    """Return the leaves in the order of the fields."""
    return [leaf for _, leaf in tree_items(tree)]


def register_with_torch() -> None:
    """Make PyTorch pytrees of the classes made before torch was imported.

    Modules that import torch call it once; classes made afterwards register themselves.
    """
    from torch.utils import _pytree as pytree

    def with_names(tree: Any) -> tuple[list[tuple[Any, Any]], None]:
        return [(pytree.GetAttrKey(field), value) for field, value in tree.items()], None

    while _unregistered:
        cls = _unregistered.pop()
        pytree.register_pytree_node(
            cls,
            lambda tree: (list(tree), None),
            lambda values, _, cls=cls: cls(*values),
            flatten_with_keys_fn=with_names,
        )


_unregistered: list[type] = []


def _annotations(namespace: dict[str, Any]) -> Iterable[str]:
    """Names annotated in a class body."""
    if sys.version_info < (3, 14):
        return namespace.get("__annotations__", {})
    import annotationlib  # they are evaluated lazily, and only their names are wanted

    annotate = annotationlib.get_annotate_from_class_namespace(namespace)
    if annotate is None:
        return namespace.get("__annotations__", {})
    return annotationlib.call_annotate_function(annotate, annotationlib.Format.STRING)


def _check_fields(name: str, fields: tuple[str, ...], defaults: dict[str, Any]) -> None:
    if not (isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name)):
        raise ValueError(f"{name!r} cannot name a class; choose an identifier")
    for i, field in enumerate(fields):
        if not is_field_name(field):
            raise ValueError(
                f"{name}: {field!r} cannot name a field; choose an identifier that does not begin "
                f"with an underscore and is no keyword and none of {sorted(_METHODS)}"
            )
        if field in fields[:i]:
            raise ValueError(f"{name}: field {field!r} is there twice; rename one")
        if field not in defaults and not defaults.keys().isdisjoint(fields[:i]):
            raise TypeError(f"{name}: field {field!r} follows one with a default; give it one too")


def _methods(name: str, fields: tuple[str, ...], defaults: dict[str, Any]) -> dict[str, Any]:
    """The methods that are written out field by field."""
    sources = (
        _INIT.format(
            ", ".join(fields), "; ".join(f"_self.{field} = {field}" for field in fields) or "pass"
        ),
        _ITER.format("".join(f"_self.{field}, " for field in fields)),
        _READ.format("\n        ".join(map(_READ_FIELD.format, fields)) or "pass"),
        _WRITE.format("\n        ".join(map(_WRITE_FIELD.format, fields)) or "pass"),
    )
    methods: dict[str, Any] = {}
    for source in sources:
        exec(compile(source, f"<{name}>", "exec"), globals(), methods)
    for method in methods.values():
        method.__qualname__ = f"{name}.{method.__name__}"
    methods["__init__"].__defaults__ = tuple(defaults.values())
    return methods


@functools.cache
def _dynamic(name: str, fields: tuple[str, ...]) -> _FieldsToSlots:
    _check_fields(name, fields, {})  # before a dict merges those of one name
    namespace = {"__annotations__": dict.fromkeys(fields, Any), "__module__": __name__}
    return _FieldsToSlots(name, (NamedArrayTuple,), namespace, dynamic=True)


def _remade(name: str, fields: tuple[str, ...], *values: Any) -> NamedArrayTuple:
    return namedarraytuple(name, fields)(*values)


def _reduce_class(cls: _FieldsToSlots) -> str | tuple[Any, ...]:
    return (namedarraytuple, (cls.__name__, cls._fields)) if cls._dynamic else cls.__qualname__


copyreg.pickle(_FieldsToSlots, _reduce_class)


def _children(tree: Tree) -> Mapping[Any, Any] | None:
    """Fields, elements or values by name, index or key; none for None, and None for a leaf."""
    if isinstance(tree, NamedArrayTuple):
        return dict(tree.items())
    if tree is None:
        return {}
    if type(tree) is dict:
        return tree
    return dict(enumerate(tree)) if type(tree) in _CONTAINERS else None


def _matching(children: Mapping[Any, Any], other: Tree) -> Mapping[Any, Any]:
    """The children of `other`, which must have the same keys."""
    others = _children(other)
    if others is None or others.keys() != children.keys():
        found = f"a leaf ({type(other).__name__})" if others is None else f"{list(others)}"
        raise ValueError(f"structures differ: {list(children)} is needed, {found} was given")
    return others


def _read(tree: Tree, loc: Any) -> Tree:
    return tree_map(lambda leaf: leaf[loc], tree)


def _write(tree: Tree, loc: Any, value: Tree) -> None:
    """Write where the classes differ, or a field is None, () or another plain container."""
    children, values = _children(tree), _children(value)
    if children == {} or values == {}:
        return
    if children is None:
        if values is not None:
            raise ValueError(f"structures differ: {list(values)} was given to a leaf")
        tree[loc] = value
        return
    given = dict.fromkeys(children, value) if values is None else _matching(children, value)
    for key, child in children.items():
        try:
            _write(child, loc, given[key])
        except Exception as error:
            _name_field(error, key)
            raise


def _name_field(error: Exception, field: Any) -> None:
    """Put the field, or one more level of its dotted path, in front of the error's text."""
    text, mark = str(error.args[0] if len(error.args) == 1 else error), "field '"
    inner = f".{text.removeprefix(mark)}" if text.startswith(mark) else f"': {text}"
    error.args = (f"{mark}{field}{inner}",)
    if str(error) != error.args[0]:  # a class that writes its text from elsewhere
        error.add_note(error.args[0])


def _outline(value: Tree) -> str:
    """A leaf by dtype and shape; anything else as it shows itself."""
    if isinstance(value, NamedArrayTuple) or type(value) in _CONTAINERS:
        return repr(value)
    dtype = str(getattr(value, "dtype", type(value).__name__)).removeprefix("torch.")
    return f"{dtype}{list(np.shape(value))}"
