"""An environment whose every text attacks the page that shows it."""

import dataclasses
import datetime as dt
from html.parser import HTMLParser

from awm_hub.environment import (
    Environment,
    Provenance,
    Quality,
    SeedTable,
    Table,
    Task,
    TaskQuality,
    ToolSpec,
    Verifier,
)

ATTACK = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>{{7*7}}${7*7}"
    "\"' onload='alert(3)' \x1b[31m\u202eevil@children"
)
_NAME = 'x"><script>alert(4)</script>'
_TAGS = """
a b button circle code dd desc details div dl dt figcaption figure g h2 h3 header p path pre rect section span summary
svg table tbody td text th thead title tr
"""
ALLOWED_TAGS = frozenset(_TAGS.split())


def hostile(environment: Environment) -> Environment:
    """The environment with an attack in every text that may hold one."""
    schema = {
        "type": "object",
        "properties": {
            ATTACK: {"type": ATTACK, "description": ATTACK, "default": ATTACK},
            "b": {"enum": [ATTACK, None]},
            "c": {"anyOf": [{"type": "array", "items": {"type": ATTACK}}, "no schema"]},
            "d": ATTACK,
        },
        "required": [ATTACK, ["b"]],
    }
    task = Task(
        id=f"{environment.id}/one",
        instruction=ATTACK,
        setup=(ATTACK,),
        answer={ATTACK: ATTACK},
        answer_sql=ATTACK,
        free=(ATTACK,),
        solution=(dataclasses.replace(environment.tasks[0].solution[0], tool=ATTACK, arguments={ATTACK: ATTACK}),),
        verifiers=(
            Verifier(kind="signals", function="f", code=ATTACK, success_criteria=ATTACK, failure_criteria=ATTACK),
        ),
    )
    quality = Quality(
        dropped_tools=(ATTACK,),
        false_effects=(ATTACK,),
        errors=(ATTACK,),
        tasks=(TaskQuality(id=task.id, notes=ATTACK),),
        audited_hash=environment.content_hash,
        audited_by=ATTACK,
        audited_at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    )
    quoted = _NAME.replace('"', '""')
    insert = "INSERT INTO t VALUES (1, '" + ATTACK.replace("'", "''") + "')"
    return dataclasses.replace(
        environment,
        title=ATTACK,
        description=ATTACK,
        rules=ATTACK,
        categories=(ATTACK,),
        requires=(ATTACK,),
        code=ATTACK,
        verifier_module=ATTACK,
        tables=(
            Table(name=_NAME, ddl=f'CREATE TABLE "{quoted}" ("{quoted}" INTEGER PRIMARY KEY, z TEXT)'),
            Table(name=ATTACK, ddl=f'CREATE TABLE t (a INTEGER REFERENCES "{quoted}", b)', indexes=(ATTACK,)),
            Table(name="broken", ddl=ATTACK),
        ),
        further_ddl=(ATTACK,),
        seed=(SeedTable(table=_NAME, inserts=(insert, ATTACK)),),
        tools=(ToolSpec(name="tool", description=ATTACK, input_schema=schema, output_schema={ATTACK: ATTACK}),),
        tasks=(task,),
        quality=quality,
        provenance=Provenance(
            source=ATTACK,
            source_revision=ATTACK,
            generator=ATTACK,
            pipeline_version=ATTACK,
            attempts={ATTACK: ATTACK},
            license=ATTACK,
        ),
    )


class _Seen(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.names: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.names |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]


def check_harmless(html: str) -> None:
    """Assert that a browser finds only tags, attributes and links that we write, and nothing that acts."""
    seen = _Seen()
    seen.feed(html)
    assert seen.tags <= ALLOWED_TAGS
    assert not {name for name in seen.names if name.startswith("on")} | ({"src", "style"} & seen.names)
    assert all(link.startswith("?") for link in seen.links)
    assert not {"\x1b", "\u202e"} & set(html)
