_TODAY = "2026-06-01"


def _ids(db, sql, *values):
    """The ids that a query gives, in its order."""
    return [row[0] for row in db.execute(sql, values)]


def _id(db, sql, *values):
    """The one id that a query gives, or None."""
    found = _ids(db, sql, *values)
    return found[0] if len(found) == 1 else None


def _submission(db, title, section):
    sql = """SELECT s.id FROM submissions s JOIN films f ON f.id = s.film_id JOIN sections c ON c.id = s.section_id
        WHERE f.title = ? AND c.name = ?"""
    return _id(db, sql, title, section)


def _film(db, title):
    return _id(db, "SELECT id FROM films WHERE title = ?", title)


def _named(db, table, name):
    """The id of a hall, hotel or user by name."""
    column = "full_name" if table == "users" else "name"
    return _id(db, f"SELECT id FROM {table} WHERE {column} = ?", name)


def _guest(db, name):
    return _id(db, "SELECT g.id FROM guests g JOIN people p ON p.id = g.person_id WHERE p.full_name = ?", name)


def _judged(changes, added=None, changed=None):
    """Compare all changes with the wanted ones.

    `added`: table -> list of new rows, every column but the id. `changed`: table -> {id: {column: new value}}.
    """
    added, changed, problems = added or {}, changed or {}, []
    for table in sorted({*changes, *added, *changed}):
        rows = changes[table]
        left = list(rows["added"])
        for wanted in added.get(table, []):
            match = next((row for row in left if all(row.get(k) == v for k, v in wanted.items())), None)
            if match is None:
                problems.append(f"{table}: no new row {wanted}")
            else:
                left.remove(match)
        problems += [f"{table}: unexpected new row {row}" for row in left]
        problems += [f"{table}: removed row {row}" for row in rows["removed"]]
        missing = dict(changed.get(table, {}))
        for change in rows["changed"]:
            before, after = change["before"], change["after"]
            found = {name: value for name, value in after.items() if before.get(name) != value}
            wanted = missing.pop(change["key"].get("id"), None)
            if found != wanted:
                problems.append(f"{table}: {change['key']} became {found}, wanted {wanted or 'no change'}")
        problems += [f"{table}: id {key} did not become {wanted}" for key, wanted in missing.items()]
    return {"problems": problems, "wanted_new": added, "wanted_changes": {t: list(r) for t, r in changed.items()}}


def signals_withdraw_salt_meridian(initial, final, changes):
    key = _submission(initial, "Salt Meridian", "True North Documentaries")
    refund = {"submission_id": key, "kind": "refund", "amount_cents": 2287, "recorded_on": _TODAY}
    withdrawn = {"status": "withdrawn", "withdrawn_on": _TODAY}
    return _judged(changes, {"fee_payments": [refund]}, {"submissions": {key: withdrawn}})


def signals_decide_short_sparks(initial, final, changes):
    wanted = {
        "Nobody's Aunt": "selected",
        "Elbow Room": "selected",
        "The Long Queue": "waitlisted",
        "Plum Tax": "waitlisted",
        "Thirteen Kettles": "rejected",
    }
    decided = {
        _submission(initial, title, "Short Sparks"): {"status": status, "decided_on": _TODAY}
        for title, status in wanted.items()
    }
    return _judged(changes, changed={"submissions": decided})


def signals_replace_harbour_of_glass(initial, final, changes):
    section = "Open Horizon Competition"
    submissions = {
        _submission(initial, "Harbour of Glass", section): {"status": "withdrawn", "withdrawn_on": _TODAY},
        _submission(initial, "Sugar for the Ferryman", section): {"status": "selected", "decided_on": _TODAY},
    }
    sql = "SELECT id FROM screenings WHERE film_id = ? AND status = 'scheduled'"
    screenings = _ids(initial, sql, _film(initial, "Harbour of Glass"))
    sql = "SELECT id FROM ticket_orders WHERE screening_id = ? AND status = 'paid'"
    orders = [order for screening in screenings for order in _ids(initial, sql, screening)]
    wanted = {
        "submissions": submissions,
        "screenings": {key: {"status": "cancelled"} for key in screenings},
        "ticket_orders": {key: {"status": "refunded", "refunded_on": _TODAY} for key in orders},
    }
    return _judged(changes, changed=wanted)


def signals_schedule_ottoline_premiere(initial, final, changes):
    screening = {
        "film_id": _film(initial, "Nine Winters of Ottoline"),
        "hall_id": _named(initial, "halls", "Kiln Stage"),
        "starts_at": "2026-06-27T18:45",
        "has_qa": 1,
        "price_cents": 1250,
        "status": "scheduled",
    }
    return _judged(changes, {"screenings": [screening]})


def signals_room_for_wieliczko(initial, final, changes):
    booking = {
        "guest_id": _guest(initial, "Tomasz Wieliczko"),
        "hotel_id": _named(initial, "hotels", "The Quay House"),
        "check_in_on": "2026-06-25",
        "check_out_on": "2026-06-30",
        "rate_cents": 9250,
        "festival_nights": 3,
        "status": "booked",
    }
    return _judged(changes, {"room_bookings": [booking]})


def signals_school_order_inishfar(initial, final, changes):
    sql = "SELECT id FROM screenings WHERE film_id = ? AND starts_at = '2026-06-29T17:00'"
    order = {
        "screening_id": _id(initial, sql, _film(initial, "Signals from Inishfar")),
        "buyer_name": "Scoil Naomh Bríd",
        "buyer_email": "office@scoilbrid.example",
        "quantity": 18,
        "discount_percent": 15,
        "total_cents": 17977,
        "ordered_on": _TODAY,
        "status": "paid",
        "refunded_on": None,
    }
    return _judged(changes, {"ticket_orders": [order]})


def signals_reviewer_for_ledger_of_rain(initial, final, changes):
    review = {
        "submission_id": _submission(initial, "A Ledger of Rain", "True North Documentaries"),
        "user_id": _named(initial, "users", "Beatriz Quintela"),
        "due_on": "2026-06-15",
        "score": None,
    }
    return _judged(changes, {"reviews": [review]})


def signals_seat_kestrel_hour_panel(initial, final, changes):
    sql = "SELECT id FROM screenings WHERE film_id = ? AND starts_at = '2026-06-28T19:30'"
    screening = _id(initial, sql, _film(initial, "Kestrel Hour"))
    names = ("Maëlle Kervadec", "Idris Penhallow", "Sunniva Aasgaard")
    seats = [{"screening_id": screening, "guest_id": _guest(initial, name)} for name in names]
    return _judged(changes, {"screening_guests": seats})


def signals_tightest_sunday_screening(initial, final, changes):
    return _judged(changes)


def signals_jury_room_costs(initial, final, changes):
    return _judged(changes)
