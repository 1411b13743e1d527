"""What a module keeps outside its database: read from its source, without running it.

No reset takes such state back, and instances in one process share it. What is looked for: names of the module that
its functions rebind, containers they change, objects and functions whose attributes they set, defaults of parameters
that they change, iterators and caches. State hidden better than that is found by running (the audit interleaves two
instances).
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

_CONTAINERS = {"list", "dict", "set", "bytearray", "defaultdict", "deque", "OrderedDict", "Counter"}
_ITERATORS = {"count", "cycle", "iter", "Random", "SystemRandom"}
_CACHES = {"cache", "lru_cache", "cached", "cached_property"}
_ADDING = {"append", "appendleft", "extend", "popleft", "setdefault"}
_CHANGING = _ADDING | {"add", "clear", "discard", "insert", "pop", "popitem", "remove", "update"}
_HARMLESS_ATTRIBUTES = {"openapi_schema"}
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, kw_only=True)
class State:
    """One thing that a function keeps outside the database."""

    name: str
    """The name that holds it."""
    line: int
    what: str
    """What happens there, in words."""


def module_state(code: str) -> tuple[State, ...]:
    """What functions of a module keep in the module, in the order of its lines; empty where they keep nothing.

    Raises:
        SyntaxError: the code is no Python.
    """
    tree = ast.parse(code)
    held = dict(_held(tree))
    found = [*_cached_names(tree)]
    for function in (node for node in ast.walk(tree) if isinstance(node, _Function)):
        found += [*_caches(function), *_changes(function, held), *_changed_defaults(function)]
    return tuple(sorted(dict.fromkeys(found), key=lambda state: state.line))


def _held(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Names of the module that hold something changeable: a `container`, an `iterator` or another `object`."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | _Function):
            yield node.name, "object"
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            kind = _kind(node.value)
            yield from ((name, kind) for name in _targets(node) if kind)


def _targets(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _kind(value: ast.expr | None) -> str | None:
    if isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp):
        return "container"
    if isinstance(value, ast.GeneratorExp):
        return "iterator"
    if not isinstance(value, ast.Call):
        return None
    name = _last_name(value.func)
    return "container" if name in _CONTAINERS else "iterator" if name in _ITERATORS else "object"


def _cached_names(tree: ast.Module) -> Iterator[State]:
    """Functions wrapped in a cache by an assignment: `find = lru_cache(maxsize=9)(_find)`."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
            function = node.value.func
            if _last_name(function.func if isinstance(function, ast.Call) else function) in _CACHES:
                for name in _targets(node):
                    yield State(name=name, line=node.lineno, what=f"{name} caches results")


def _caches(function: _Function) -> Iterator[State]:
    for decorator in function.decorator_list:
        cache = _last_name(decorator.func if isinstance(decorator, ast.Call) else decorator)
        if cache in _CACHES:
            yield State(name=function.name, line=decorator.lineno, what=f"{function.name} caches results ({cache})")


def _changes(function: _Function, held: dict[str, str]) -> Iterator[State]:
    own = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
    rebound: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Global):
            rebound |= set(node.names)
            for name in node.names:
                yield State(name=name, line=node.lineno, what=f"{function.name} rebinds {name} (global)")
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
    reachable = {name: kind for name, kind in held.items() if name not in own and name not in rebound}
    for node in ast.walk(function):
        changed = _changed(node, reachable)
        if changed is not None:
            line = getattr(node, "lineno", function.lineno)
            yield State(name=changed, line=line, what=f"{function.name} changes {changed}")


def _changed(node: ast.AST, held: dict[str, str]) -> str | None:
    """The held name that a piece of code changes."""
    if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        is_harmless = isinstance(node, ast.Attribute) and node.attr in _HARMLESS_ATTRIBUTES
        root = _root(node)
        if root == "globals()":
            return root
        return root if root in held and not is_harmless else None
    if isinstance(node, ast.Name):
        return node.id if held.get(node.id) == "iterator" else None
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Attribute):
        root = _root(node.func.value)
        kind = held.get(root or "")
        is_changing = kind is not None and node.func.attr in (_CHANGING if kind == "container" else _ADDING)
        return root if is_changing else None
    if _last_name(node.func) in ("setattr", "delattr") and node.args:
        root = _root(node.args[0])
        return root if root in held else None
    return None


def _changed_defaults(function: _Function) -> Iterator[State]:
    """Parameters whose default is one container for all calls, and which the function changes."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(reversed(positional), reversed(arguments.defaults), strict=False)]
    pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
    rebound = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    shared = {a.arg: "container" for a, d in pairs if _kind(d) == "container" and a.arg not in rebound}
    for node in ast.walk(function) if shared else ():
        name = _changed(node, shared)
        if name is not None:
            what = f"{function.name} changes the default of its parameter {name}"
            yield State(name=name, line=getattr(node, "lineno", function.lineno), what=what)


def _root(node: ast.expr) -> str | None:
    """The name that a chain of attributes and subscripts begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    if isinstance(node, ast.Call) and _last_name(node.func) == "globals":
        return "globals()"
    return node.id if isinstance(node, ast.Name) else None


def _last_name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None
