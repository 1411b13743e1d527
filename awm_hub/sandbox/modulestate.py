"""Whether a module keeps state outside its database: read from its source, without running it.

No reset takes such state back, and instances in one process share it. What is looked for: names of the module that
its functions rebind, containers they change, objects whose attributes they set, iterators and caches. State hidden
better than that is found by running (the audit interleaves two instances).
"""

import ast
from collections.abc import Iterator

_CONTAINERS = {"list", "dict", "set", "bytearray", "defaultdict", "deque", "OrderedDict", "Counter"}
_ITERATORS = {"count", "cycle", "iter", "Random", "SystemRandom"}
_CACHES = {"cache", "lru_cache", "cached", "cached_property"}
_ADDING = {"append", "appendleft", "extend", "popleft", "setdefault"}
_CHANGING = _ADDING | {"add", "clear", "discard", "insert", "pop", "popitem", "remove", "update"}
_HARMLESS_ATTRIBUTES = {"openapi_schema"}
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def has_module_state(code: str) -> bool:
    """Whether functions of a module change what the module holds."""
    tree = ast.parse(code)
    held = dict(_held(tree))
    functions = [node for node in ast.walk(tree) if isinstance(node, _Function)]
    return any(_is_cached(function) or _changes(function, held) for function in functions)


def _held(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Names of the module that hold something changeable: a `container`, an `iterator` or another `object`."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name, "object"
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            kind = _kind(node.value)
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((target.id, kind) for target in targets if kind and isinstance(target, ast.Name))


def _kind(value: ast.expr | None) -> str | None:
    if isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp):
        return "container"
    if isinstance(value, ast.GeneratorExp):
        return "iterator"
    if not isinstance(value, ast.Call):
        return None
    name = _last_name(value.func)
    return "container" if name in _CONTAINERS else "iterator" if name in _ITERATORS else "object"


def _is_cached(function: _Function) -> bool:
    names = (_last_name(d.func if isinstance(d, ast.Call) else d) for d in function.decorator_list)
    return any(name in _CACHES for name in names)


def _changes(function: _Function, held: dict[str, str]) -> bool:
    own = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
    for node in ast.walk(function):
        if isinstance(node, ast.Global):
            return True
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
    reachable = {name: kind for name, kind in held.items() if name not in own}
    return any(_is_change(node, reachable) for node in ast.walk(function))


def _is_change(node: ast.AST, held: dict[str, str]) -> bool:
    if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        is_harmless = isinstance(node, ast.Attribute) and node.attr in _HARMLESS_ATTRIBUTES
        return _root(node) in held and not is_harmless
    if isinstance(node, ast.Name):
        return held.get(node.id) == "iterator"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        kind = held.get(_root(node.func.value) or "")
        return kind is not None and node.func.attr in (_CHANGING if kind == "container" else _ADDING)
    return False


def _root(node: ast.expr) -> str | None:
    """The name that a chain of attributes and subscripts begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _last_name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None
