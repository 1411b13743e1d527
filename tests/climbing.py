"""A small draft that every gate of the first four stages accepts, and ways to spoil it."""

import dataclasses
import datetime as dt
import json

from awm_hub.synthesis import products
from awm_hub.synthesis.drafts import Draft, Sizes

CLOCK = dt.datetime(2026, 6, 1, 8, tzinfo=dt.UTC)
SCENARIO = {
    "title": "Climbing Gym Desk",
    "description": (
        "Fellwand is a climbing gym in Tarnmouth with courses for all ages. The system holds its members, the courses "
        "they can join, the places they have booked, and what they have paid for them. Prices are in euros. The user "
        "is Odalys Brennmoor, the desk manager (member id 1), who may book, move and cancel for everybody."
    ),
    "categories": ["sports", "scheduling"],
    "rules": "- A member who cancels less than 48 hours before the start pays half of the price.\n"
    "- A free place goes to the person who has waited longest.\n- Paused members cannot book courses.",
}
TASKS = {
    "price_of_lead_basics": {
        "kind": "query",
        "instruction": 'What does the course "Lead Basics" on Thursday, 4 June 2026 cost, in euros, for one person?',
    },
    "book_ama": {
        "kind": "change",
        "instruction": "Ama Brightwater wants to come to the bouldering evening tomorrow. Please book a place for her.",
    },
    "cancel_tomasz": {
        "kind": "both",
        "instruction": 'Tomasz Ferrand is ill and cannot attend Lead Basics. Cancel it with the note "Ill"; what must '
        "he pay in euros by our rules?",
    },
}
SCHEMA = """
CREATE TABLE members (
    id INTEGER PRIMARY KEY,
    full_name TEXT NOT NULL,
    email TEXT NOT NULL UNIQUE,
    joined_on TEXT NOT NULL CHECK (joined_on IS date(joined_on, '+0 days'))
);
CREATE TABLE courses (
    id INTEGER PRIMARY KEY,
    title TEXT NOT NULL,
    starts_on TEXT NOT NULL CHECK (starts_on IS date(starts_on, '+0 days')),
    price_cents INTEGER NOT NULL CHECK (price_cents >= 0)
);
CREATE TABLE bookings (
    id INTEGER PRIMARY KEY,
    member_id INTEGER NOT NULL REFERENCES members (id),
    course_id INTEGER NOT NULL REFERENCES courses (id),
    note TEXT NOT NULL DEFAULT '',
    created_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE INDEX bookings_by_member ON bookings (member_id);
CREATE VIEW places AS SELECT course_id, count(*) AS taken FROM bookings GROUP BY course_id;
"""
SEED = """
INSERT INTO members (id, full_name, email, joined_on) VALUES
(1, 'Odalys Brennmoor', 'odalys@fellwand.example', '2021-03-15'),
(2, 'Ama Brightwater', 'ama@mailbox.example', '2024-09-02'),
(3, 'Tomasz Ferrand', 'tomasz@mailbox.example', '2025-01-20');
INSERT INTO courses (id, title, starts_on, price_cents) VALUES
(1, 'Lead Basics', '2026-06-04', 4500),
(2, 'Bouldering evening', '2026-06-02', 1800),
(3, 'Lead Basics', '2026-06-11', 4900);
INSERT INTO bookings (id, member_id, course_id, note, created_at) VALUES
(1, 3, 1, '', '2026-05-20 10:15:00'),
(2, 3, 3, 'Maeve''s guest', '2026-05-21 11:00:00');
"""


def climbing() -> Draft:
    """The draft."""
    draft = Draft(
        id="climbing_1",
        name="climbing gym",
        outline="A desk that books courses.",
        clock=CLOCK,
        sizes=Sizes(tables=3, rows=8, tools=4, tasks=3),
    )
    draft = draft.having("scenario", products.read_records(json.dumps(SCENARIO)).parts)
    draft = draft.having("task", products.read_records(json.dumps(TASKS)).parts)
    draft = draft.having("database", products.read_sql(SCHEMA).parts)
    return draft.having("sample_data", products.read_sql(SEED).parts)


def with_values(draft: Draft, stage: str, **values: object) -> Draft:
    """The draft with other values of a product in JSON; None takes a part away."""
    given = {name: json.dumps(value, ensure_ascii=False) for name, value in values.items() if value is not None}
    kept = {name: text for name, text in draft.parts(stage).items() if name not in values}
    return draft.having(stage, {**kept, **given})


def with_sql(draft: Draft, stage: str, sql: str) -> Draft:
    """The draft with what an answer gives more or anew."""
    return draft.having(stage, products.merged(draft.parts(stage), products.read_sql(sql)))


def with_sizes(draft: Draft, **sizes: int) -> Draft:
    """The draft with other sizes."""
    return dataclasses.replace(draft, sizes=dataclasses.replace(draft.sizes, **sizes))
