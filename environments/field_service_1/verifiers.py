"""Facts for a judge (signals_*), and the decision of the one task that has more right endings than its solution."""

import sqlite3

StateDiff = dict[str, dict[str, list[dict]]]


def _rows(db: sqlite3.Connection, sql: str, *parameters: object) -> list[dict]:
    return [dict(row) for row in db.execute(sql, parameters)]


def _column(db: sqlite3.Connection, sql: str, *parameters: object) -> list:
    return [row[0] for row in db.execute(sql, parameters)]


def _before_and_after(initial: sqlite3.Connection, final: sqlite3.Connection, sql: str) -> dict:
    return {"before": _rows(initial, sql), "after": _rows(final, sql)}


def signals_northgate_dental_balance(
    initial: sqlite3.Connection, final: sqlite3.Connection, changes: StateDiff
) -> dict:
    open_invoices = _rows(
        initial,
        "SELECT i.id, b.total_cents, b.paid_cents, b.credited_cents, b.open_cents FROM invoices i"
        " JOIN invoice_balances b ON b.invoice_id = i.id JOIN customers k ON k.id = i.customer_id"
        " WHERE k.name = 'Northgate Dental Practice' AND i.status = 'open' ORDER BY i.id",
    )
    return {
        "open_invoices": open_invoices,
        "expected_answer_eur": sum(invoice["open_cents"] for invoice in open_invoices) / 100,
        "changes": changes,
    }


def signals_east_below_level(initial: sqlite3.Connection, final: sqlite3.Connection, changes: StateDiff) -> dict:
    sql = (
        "SELECT p.sku FROM depot_stock s JOIN parts p ON p.id = s.part_id JOIN depots d ON d.id = s.depot_id"
        " WHERE d.code = 'EAST' AND s.quantity {} s.reorder_level ORDER BY p.sku"
    )
    return {
        "expected_answer": _column(initial, sql.format("<")),
        "exactly_at_their_level": _column(initial, sql.format("=")),
        "changes": changes,
    }


def signals_fgas_running_out(initial: sqlite3.Connection, final: sqlite3.Connection, changes: StateDiff) -> dict:
    last_valid_days = _rows(
        initial,
        "SELECT e.full_name, e.is_active, max(c.expires_on) AS valid_until FROM employees e"
        " JOIN certifications c ON c.technician_id = e.id JOIN skills s ON s.id = c.skill_id"
        " WHERE s.code = 'FGAS' GROUP BY e.id ORDER BY e.id",
    )
    return {
        "last_valid_days": last_valid_days,
        "expected_answer": [
            technician["full_name"]
            for technician in last_valid_days
            if technician["is_active"] and "2026-10-05" <= technician["valid_until"] < "2026-11-01"
        ],
        "changes": changes,
    }


def signals_overdue_under_contract(initial: sqlite3.Connection, final: sqlite3.Connection, changes: StateDiff) -> dict:
    due = _rows(
        initial,
        "SELECT u.serial_no, t.label AS site, date(coalesce(u.last_serviced_on, u.installed_on),"
        " '+' || m.service_interval_months || ' months') AS service_due_on, EXISTS (SELECT 1 FROM contracts c"
        " WHERE c.site_id = t.id AND c.cancelled_on IS NULL AND '2026-10-05' BETWEEN c.starts_on AND c.ends_on)"
        " AS has_contract FROM units u JOIN equipment_models m ON m.id = u.model_id JOIN sites t ON t.id = u.site_id"
        " JOIN customers k ON k.id = t.customer_id WHERE k.name = 'Brackwater Housing Association'"
        " AND u.status = 'active' ORDER BY service_due_on, u.id",
    )
    return {
        "active_units": due,
        "expected_answer_in_this_order": [
            unit["serial_no"] for unit in due if unit["has_contract"] and unit["service_due_on"] < "2026-10-05"
        ],
        "changes": changes,
    }


def _capable(initial: sqlite3.Connection, visit: dict) -> bool:
    """Whether the technician of a new visit for work order 21 was qualified, on shift and free before it."""
    day, start, end = visit["starts_at"][:10], visit["starts_at"], visit["ends_at"]
    found = initial.execute(
        "SELECT 1 FROM employees e JOIN depots d ON d.id = e.depot_id JOIN certifications c ON c.technician_id = e.id"
        " JOIN skills s ON s.id = c.skill_id JOIN working_shifts h ON h.technician_id = e.id"
        " WHERE e.id = :technician AND e.is_active AND d.code = 'EAST' AND s.code = 'VENT'"
        " AND :day BETWEEN c.issued_on AND c.expires_on AND h.weekday = (strftime('%w', :day) + 6) % 7"
        " AND h.starts <= substr(:start, 12) AND h.ends >= substr(:end, 12) AND NOT EXISTS (SELECT 1 FROM absences a"
        " WHERE a.technician_id = e.id AND :day BETWEEN a.first_day AND a.last_day) AND NOT EXISTS"
        " (SELECT 1 FROM visits v WHERE v.technician_id = e.id AND v.status = 'booked' AND v.starts_at < :end"
        " AND v.ends_at > :start)",
        {"technician": visit["technician_id"], "day": day, "start": start, "end": end},
    )
    return found.fetchone() is not None


def signals_warehouse_service_thursday(
    initial: sqlite3.Connection, final: sqlite3.Connection, changes: StateDiff
) -> dict:
    visits = _rows(
        final,
        "SELECT v.id, v.technician_id, e.full_name AS technician, v.starts_at, v.ends_at, v.status FROM visits v"
        " JOIN employees e ON e.id = v.technician_id WHERE v.work_order_id = 21 ORDER BY v.id",
    )
    return {
        "work_order_status": _column(final, "SELECT status FROM work_orders WHERE id = 21"),
        "visits": [visit | {"technician_was_capable_and_free": _capable(initial, visit)} for visit in visits],
        "changes": changes,
    }


def decide_warehouse_service_thursday(
    initial: sqlite3.Connection, final: sqlite3.Connection, changes: StateDiff
) -> dict:
    added = changes.get("visits", {}).get("added", [])
    reasons = [f"unexpected change in {table}" for table in sorted(changes.keys() - {"visits", "work_orders"})]
    if len(added) != 1 or any(changes["visits"][kind] for kind in ("removed", "changed")):
        reasons.append("not exactly one visit was added to the seed's visits")
    if not _only_scheduled_21(changes.get("work_orders", {})):
        reasons.append("not just the status of work order 21 changed from open to scheduled")
    if reasons:
        return {"result": "others", "reasons": reasons}
    visit = added[0]
    if (visit["work_order_id"], visit["status"]) != (21, "booked") or not _capable(initial, visit):
        return {"result": "others", "reasons": ["the visit is not booked for work order 21 with somebody capable"]}
    start, end = visit["starts_at"], visit["ends_at"]
    if start[:10] != "2026-10-08" or start[11:] < "12:00":
        return {"result": "partial", "reasons": [f"the visit starts at {start}, not on Thursday afternoon"]}
    return {"result": "complete", "reasons": [f"booked from {start} to {end}"]}


def _only_scheduled_21(work_orders: dict[str, list[dict]]) -> bool:
    changed = work_orders.get("changed", [])
    if work_orders.get("added") or work_orders.get("removed") or len(changed) != 1:
        return False
    before, after = changed[0]["before"], changed[0]["after"]
    differing = {column: value for column, value in after.items() if before.get(column) != value}
    return changed[0]["key"] == {"id": 21} and differing == {"status": "scheduled"}


def signals_emergency_in_the_garden_wing(
    initial: sqlite3.Connection, final: sqlite3.Connection, changes: StateDiff
) -> dict:
    return {
        "new_work_orders": changes.get("work_orders", {}).get("added", []),
        "new_visits": changes.get("visits", {}).get("added", []),
        "unit_meant": _rows(
            initial,
            "SELECT u.id, u.serial_no FROM units u JOIN sites t ON t.id = u.site_id JOIN equipment_models m"
            " ON m.id = u.model_id WHERE t.label = 'Garden wing' AND m.kind = 'heat_pump' AND u.status = 'active'",
        ),
        "expected_visit": {"technician_id": 14, "starts_at": "2026-10-05T12:30", "ends_at": "2026-10-05T14:30"},
        "changes": changes,
    }


def signals_late_visit_complaint(initial: sqlite3.Connection, final: sqlite3.Connection, changes: StateDiff) -> dict:
    lateness = _rows(
        initial,
        "SELECT w.due_on, v.starts_at, julianday(substr(v.starts_at, 1, 10)) - julianday(w.due_on) AS days_late"
        " FROM work_orders w JOIN visits v ON v.work_order_id = w.id WHERE w.id = 2 AND v.status = 'completed'",
    )
    total = _column(initial, "SELECT total_cents FROM invoice_balances WHERE invoice_id = 2")[0]
    credit = total * min(20, 5 * int(lateness[0]["days_late"])) // 100
    return {
        "lateness": lateness,
        "expected_credit_cents": credit,
        "expected_payment_cents": total - credit,
        "complaints": _rows(final, "SELECT id, status FROM complaints WHERE id IN (2, 3) ORDER BY id"),
        "invoice": _before_and_after(initial, final, "SELECT * FROM invoice_balances WHERE invoice_id = 2"),
        "changes": changes,
    }


def signals_leilani_is_ill(initial: sqlite3.Connection, final: sqlite3.Connection, changes: StateDiff) -> dict:
    sql = (
        "SELECT id, technician_id, starts_at, status, cancellation_reason FROM visits WHERE id BETWEEN 14 AND 18"
        " ORDER BY id"
    )
    return {
        "visits": _before_and_after(initial, final, sql),
        "absences_of_leilani": _rows(final, "SELECT * FROM absences WHERE technician_id = 8 ORDER BY id"),
        "expected": "visit 15 to technician 6, visit 16 to technician 5, visit 17 cancelled: Technician absent",
        "changes": changes,
    }


def signals_reorder_for_north(initial: sqlite3.Connection, final: sqlite3.Connection, changes: StateDiff) -> dict:
    stock = _rows(
        initial,
        "SELECT p.sku, s.quantity, s.reorder_level, (SELECT coalesce(sum(l.quantity), 0) FROM purchase_order_lines l"
        " JOIN purchase_orders o ON o.id = l.purchase_order_id WHERE o.status = 'open' AND o.depot_id = s.depot_id"
        " AND l.part_id = p.id) AS on_order FROM depot_stock s JOIN parts p ON p.id = s.part_id"
        " JOIN suppliers f ON f.id = p.supplier_id WHERE s.depot_id = 1 AND f.name = 'Polar Components' ORDER BY p.sku",
    )
    needed = {part["sku"]: 2 * part["reorder_level"] - part["quantity"] - part["on_order"] for part in stock}
    return {
        "stock": stock,
        "expected_lines": {
            part["sku"]: needed[part["sku"]]
            for part in stock
            if part["quantity"] + part["on_order"] < part["reorder_level"]
        },
        "new_orders": changes.get("purchase_orders", {}).get("added", []),
        "new_lines": changes.get("purchase_order_lines", {}).get("added", []),
        "changes": changes,
    }


def signals_kestrel_visit_report(initial: sqlite3.Connection, final: sqlite3.Connection, changes: StateDiff) -> dict:
    sql = "SELECT id, status, report, refrigerant_kg FROM visits WHERE id IN (12, 13) ORDER BY id"
    return {
        "visits": _before_and_after(initial, final, sql),
        "parts_used": _rows(final, "SELECT * FROM visit_parts WHERE visit_id IN (12, 13) ORDER BY part_id"),
        "loadings": changes.get("van_loadings", {}).get("added", []),
        "invoices": _rows(
            final,
            "SELECT b.invoice_id, b.total_cents FROM invoice_balances b JOIN invoices i ON i.id = b.invoice_id"
            " WHERE i.work_order_id IN (9, 10) ORDER BY i.id",
        ),
        "changes": changes,
    }
