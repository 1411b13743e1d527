_TODAY = "2026-06-01"


def _value(db, sql, *values):
    """The first column of the only row; None where there is no such row or several."""
    rows = db.execute(sql, values).fetchall()
    return rows[0][0] if len(rows) == 1 else None


def _boat(db, name, owner):
    sql = "SELECT b.id FROM boats b JOIN customers c ON c.id = b.customer_id WHERE b.name = ? AND c.full_name = ?"
    return _value(db, sql, name, owner)


def _owner(db, name):
    return _value(db, "SELECT id FROM customers WHERE full_name = ?", name)


def _berth(db, code):
    return _value(db, "SELECT id FROM berths WHERE code = ?", code)


def _visit(db, boat_id, arrives_on):
    sql = "SELECT id FROM visits WHERE boat_id = ? AND arrives_on = ? AND status = 'booked'"
    return _value(db, sql, boat_id, arrives_on)


def _new_id(changes, table):
    added = changes[table]["added"]
    return added[0]["id"] if len(added) == 1 else None


def _compare(changes, added=None, changed=None):
    """Problems, where `added` are all new rows by table and `changed` all new values by table and id."""
    added, changed, problems = added or {}, changed or {}, []
    for table in sorted({*changes, *added, *changed}):
        rows, wanted, updates = changes[table], list(added.get(table, ())), dict(changed.get(table, {}))
        problems += [f"{table}: a row was removed: {row}" for row in rows["removed"]]
        for row in rows["added"]:
            match = next((w for w in wanted if all(row.get(name) == value for name, value in w.items())), None)
            if match is None:
                problems.append(f"{table}: new row {row}, expected {wanted}")
            else:
                wanted.remove(match)
            prefix = {"visits": "V", "invoices": "INV"}.get(table)
            if prefix and row.get("number", "") not in ("", f"{prefix}-{row['id']:05}"):
                problems.append(f"{table}: number {row.get('number')} does not follow from id {row['id']}")
        problems += [f"{table}: no new row {row}" for row in wanted]
        for row in rows["changed"]:
            expected = {**row["before"], **updates.pop(row["key"].get("id"), {})}
            if row["after"] != expected:
                problems.append(f"{table}: row is {row['after']}, expected {expected}")
        problems += [f"{table}: row {key} did not become {values}" for key, values in updates.items()]
    return {"problems": problems, "expected_new": added, "changes": {table: changes[table] for table in changes}}


def signals_book_pelagie_stay(initial, final, changes):
    visit = {
        "boat_id": _boat(initial, "Pélagie", "Ottoline Vasquez-Brandt"),
        "berth_id": _berth(initial, "B-09"),
        "arrives_on": "2026-06-12",
        "departs_on": "2026-06-19",
        "price_cents": 26681,
        "status": "booked",
        "cancelled_on": None,
        "cancellation_fee_cents": None,
        "booked_by": 1,
    }
    return _compare(changes, {"visits": [visit]})


def signals_cancel_sterna_visit(initial, final, changes):
    visit_id = _visit(initial, _boat(initial, "Sterna", "Mathis Kerouédan"), "2026-06-04")
    invoice = {
        "customer_id": _owner(initial, "Mathis Kerouédan"),
        "issued_on": _TODAY,
        "due_on": "2026-06-15",
        "status": "issued",
    }
    line = {
        "invoice_id": _new_id(changes, "invoices"),
        "description": "Cancellation fee Sterna",
        "amount_cents": 4253,
    }
    cancelled = {"status": "cancelled", "cancelled_on": _TODAY, "cancellation_fee_cents": 4253}
    return _compare(changes, {"invoices": [invoice], "invoice_lines": [line]}, {"visits": {visit_id: cancelled}})


def signals_let_berth_b14(initial, final, changes):
    boat_id = _boat(initial, "Lady Isolde", "Siobhán Kettlewell")
    entry_id = _value(initial, "SELECT id FROM waiting_entries WHERE boat_id = ? AND status = 'waiting'", boat_id)
    contract = {
        "berth_id": _berth(initial, "B-14"),
        "boat_id": boat_id,
        "starts_on": "2026-06-08",
        "ends_on": "2026-10-31",
        "fee_cents": 266071,
        "signed_by": 1,
    }
    return _compare(changes, {"contracts": [contract]}, {"waiting_entries": {entry_id: {"status": "placed"}}})


def signals_insurance_gaps_on_pontoon_c(initial, final, changes):
    return _compare(changes)


def signals_quote_tavake_in_july(initial, final, changes):
    return _compare(changes)


def signals_close_berth_d03(initial, final, changes):
    closure = {
        "berth_id": _berth(initial, "D-03"),
        "starts_on": "2026-06-03",
        "ends_on": "2026-06-10",
        "reason": "Cleat replacement",
    }
    moves = (
        ("Wren of Cobh", "Theo van Rijswoud", "2026-06-04", "A-08"),
        ("Mistral Blanc", "Noémie Le Tallec", "2026-06-05", "D-06"),
        ("Oystercatcher", "Ranulf Abernathy", "2026-06-09", "D-02"),
    )
    visits = {
        _visit(initial, _boat(initial, name, owner), day): {"berth_id": _berth(initial, code)}
        for name, owner, day, code in moves
    }
    return _compare(changes, {"closures": [closure]}, {"visits": visits})


def signals_spread_achterberg_payment(initial, final, changes):
    sql = "SELECT id FROM invoices WHERE customer_id = ? AND status = 'issued' AND due_on = ?"
    owner = _owner(initial, "Rosalind Achterberg")
    payments = [
        {
            "invoice_id": _value(initial, sql, owner, due_on),
            "amount_cents": amount,
            "method": "transfer",
            "reference": "RA 31-05",
            "received_on": _TODAY,
        }
        for due_on, amount in (("2026-05-08", 13740), ("2026-05-15", 20585), ("2026-06-10", 15675))
    ]
    return _compare(changes, {"payments": payments})


def signals_move_lifts_for_crane_inspection(initial, final, changes):
    moves = (
        ("2026-06-12T08:00", "2026-06-15T10:00"),
        ("2026-06-12T10:00", "2026-06-15T12:00"),
        ("2026-06-12T14:00", "2026-06-16T09:00"),
    )
    sql = "SELECT id FROM lifts WHERE starts_at = ? AND status = 'booked'"
    return _compare(changes, None, {"lifts": {_value(initial, sql, old): {"starts_at": new} for old, new in moves}})


def signals_replace_tern_with_arctic_tern(initial, final, changes):
    owner, new_id = "Inês Ferreira-Quill", _new_id(changes, "boats")
    boat = {
        "customer_id": _owner(initial, owner),
        "name": "Arctic Tern",
        "registration": "IE-7741-K",
        "hull": "monohull",
        "length_cm": 985,
        "beam_cm": 320,
        "draught_cm": 175,
        "weight_kg": 4900,
    }
    policy = {
        "boat_id": new_id,
        "policy_number": "HM-220914",
        "insurer": "Harbourmark Mutual",
        "cover_cents": 400000000,
        "starts_on": _TODAY,
        "ends_on": "2027-05-31",
    }
    entry = {"boat_id": new_id, "joined_on": _TODAY, "status": "waiting"}
    sql = "SELECT id FROM waiting_entries WHERE boat_id = ? AND status = 'waiting'"
    old_id = _value(initial, sql, _boat(initial, "Tern", owner))
    added = {"boats": [boat], "policies": [policy], "waiting_entries": [entry]}
    return _compare(changes, added, {"waiting_entries": {old_id: {"status": "withdrawn"}}})


def signals_check_in_todays_arrivals(initial, final, changes):
    boats = (("Gannet's Way", "Kwabena Asante"), ("Marisol", "Beatrix Holloway"))
    visits = {_visit(initial, _boat(initial, *boat), _TODAY): {"status": "checked_in"} for boat in boats}
    return _compare(changes, None, {"visits": visits})
