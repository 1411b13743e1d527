TODAY = "2026-06-01"


def _value(db, sql, *values):
    """The first cell of the first row; None where there is none."""
    row = db.execute(sql, values).fetchone()
    return None if row is None else row[0]


def _named(db, table, name, column="name"):
    return _value(db, f"SELECT id FROM {table} WHERE {column} = ?", name)


def _order(db, agency, day):
    sql = """SELECT o.id FROM orders o JOIN agencies g ON g.id = o.agency_id
        WHERE g.name = ? AND o.collection_on = ? AND o.status = 'placed'"""
    return _value(db, sql, agency, day)


def _line(db, order_id, item):
    sql = "SELECT id FROM order_lines WHERE order_id = ? AND item_id = ?"
    return _value(db, sql, order_id, _named(db, "items", item))


def _lot(db, code):
    return _named(db, "lots", code, "code")


def _holds(row, wanted):
    return all(row.get(name) == value for name, value in wanted.items())


def _take(rows, wanted):
    """The first row that holds the wanted values, taken out of the list; None where there is none."""
    for at, row in enumerate(rows):
        if _holds(row, wanted):
            return rows.pop(at)
    return None


def _problems(changes, added=(), removed=(), changed=()):
    """Whatever differs from the expected changes.

    added, removed: pairs of a table and the values of a row; changed: a table, the key's id and the new values.
    """
    found = []
    left = {(table, kind): list(rows[kind]) for table, rows in changes.items() for kind in ("added", "removed", "changed")}
    for kind, expected in (("added", added), ("removed", removed)):
        for table, wanted in expected:
            if _take(left.get((table, kind), []), wanted) is None:
                found.append(f"{table}: no row {kind} with {wanted}")
    for table, key, values in changed:
        rows = left.get((table, "changed"), [])
        row = next((r for r in rows if _holds(r["after"], key)), None)
        if row is None:
            found.append(f"{table}: the row with {key} is not changed to {values}")
            continue
        rows.remove(row)
        if row["after"] != {**row["before"], **values}:
            found.append(f"{table}: the row with {key} is {row['after']}, expected the old one with {values}")
    for (table, kind), rows in left.items():
        found += [f"{table}: unexpected row {kind}: {row}" for row in rows]
    return found


def signals_saltmarsh_june_allowance(initial, final, changes):
    return {"problems": _problems(changes)}


def signals_handling_fees_of_3_june(initial, final, changes):
    return {"problems": _problems(changes)}


def signals_fill_ferryside_lentils(initial, final, changes):
    line = _line(initial, _order(initial, "Ferryside Kitchen", "2026-06-11"), "Red Lentils")
    new = {"L-0016": 9, "L-0018": 11, "L-0035": 3}
    added = [
        ("allocations", {"order_line_id": line, "lot_id": _lot(initial, code), "cases": cases})
        for code, cases in new.items()
    ]
    key = {"order_line_id": line, "lot_id": _lot(initial, "L-0003")}
    problems = _problems(changes, added, changed=[("allocations", key, {"cases": 17})])
    return {"problems": problems, "order_line_id": line}


def signals_order_for_kestrel_row(initial, final, changes):
    order = {
        "agency_id": _named(initial, "agencies", "Kestrel Row Hostel"), "collection_on": "2026-06-19",
        "status": "placed", "hold_reason": "", "placed_on": TODAY, "placed_by": 1, "cancelled_on": None,
    }
    new = next((row["id"] for row in changes["orders"]["added"] if _holds(row, order)), None)
    cases = {"Tinned Chickpeas": 14, "Loose Carrots": 25, "Frozen Mixed Vegetables": 34}
    lines = [
        ("order_lines", {"order_id": new, "item_id": _named(initial, "items", name), "cases": count})
        for name, count in cases.items()
    ]
    return {"problems": _problems(changes, [("orders", order), *lines]), "order_id": new}


def signals_cancel_thornbury_order(initial, final, changes):
    order = _order(initial, "Thornbury Community Fridge", "2026-06-03")
    charge = {
        "agency_id": _named(initial, "agencies", "Thornbury Community Fridge"), "order_id": order,
        "kind": "cancellation", "amount_cents": 759, "charged_on": TODAY,
    }
    sql = """SELECT a.order_line_id, a.lot_id, a.cases FROM allocations a
        JOIN order_lines ol ON ol.id = a.order_line_id WHERE ol.order_id = ?"""
    removed = [("allocations", dict(row)) for row in initial.execute(sql, (order,))]
    changed = [("orders", {"id": order}, {"status": "cancelled", "cancelled_on": TODAY})]
    return {"problems": _problems(changes, [("charges", charge)], removed, changed), "order_id": order}


def signals_put_away_brindle_delivery(initial, final, changes):
    donation = {
        "donor_id": _named(initial, "donors", "Brindle & Hay Wholesale"), "received_on": TODAY, "received_by": 1,
    }
    new = next((row["id"] for row in changes["donations"]["added"] if _holds(row, donation)), None)
    wanted = [
        ("Cheddar Blocks", "C3", 36, "2026-08-14"),
        ("Chopped Tomatoes", "A2", 48, "2027-11-30"),
        ("Pasta Shells", "A2", 50, "2028-01-31"),
    ]
    lots = [
        {
            "donation_id": new, "item_id": _named(initial, "items", item),
            "storage_area_id": _named(initial, "storage_areas", area, "code"), "cases_received": cases,
            "best_before_on": day, "status": "inbound", "quarantine_reason": "",
        }
        for item, area, cases, day in wanted
    ]
    problems = _problems(changes, [("donations", donation), *(("lots", lot) for lot in lots)])
    found = sorted(changes["lots"]["added"], key=lambda row: row["id"])
    order, expected = [row["item_id"] for row in found], [lot["item_id"] for lot in lots]
    if not problems and order != expected:
        problems.append(f"the lots were put away in the order of the items {order}, expected {expected}")
    return {"problems": problems, "donation_id": new}


def signals_recall_peanut_butter(initial, final, changes):
    line = _line(initial, _order(initial, "Millbrook Pantry", "2026-06-15"), "Crunchy Peanut Butter")
    values = {"status": "quarantined", "quarantine_reason": "Recall by the maker"}
    changed = [("lots", {"code": code}, values) for code in ("L-0015", "L-0023", "L-0037")]

    def rows(cases):
        return [
            ("allocations", {"order_line_id": line, "lot_id": _lot(initial, code), "cases": count})
            for code, count in cases.items()
        ]

    problems = _problems(changes, rows({"L-0032": 14, "L-0024": 8}), rows({"L-0015": 17, "L-0023": 5}), changed)
    return {"problems": problems, "order_line_id": line}


def signals_plan_lowmead_pickup(initial, final, changes):
    pickup = {
        "donor_id": _named(initial, "donors", "Lowmead Dairy"), "planned_on": "2026-06-04", "half_day": "afternoon",
        "storage_class": "chilled", "expected_kg": 640, "status": "planned",
        "vehicle_id": _named(initial, "vehicles", "AL21 YTD", "plate"),
        "driver_id": _named(initial, "staff", "Lucía Ferrando", "full_name"),
    }
    return {"problems": _problems(changes, [("pickups", pickup)]), "expected": pickup}


def signals_write_off_expired_stock(initial, final, changes):
    cases = {"L-0004": 5, "L-0011": 8, "L-0028": 11, "L-0007": 7}
    added = [
        (
            "write_offs",
            {
                "lot_id": _lot(initial, code), "cases": count, "reason": "Past best-before",
                "written_off_on": TODAY, "written_off_by": 1,
            },
        )
        for code, count in cases.items()
    ]
    return {"problems": _problems(changes, added), "expected_cases": cases}


def signals_hold_unfit_orders_9_june(initial, final, changes):
    orders = [_order(initial, agency, "2026-06-09") for agency in ("St Brannock's Pantry", "Quayside Soup Run")]
    values = {"status": "on_hold", "hold_reason": "Agency not eligible"}
    changed = [("orders", {"id": order}, values) for order in orders]
    return {"problems": _problems(changes, changed=changed), "order_ids": orders}
