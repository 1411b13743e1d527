"""Facts about how a run ended, one function per task. Decisions are derived from the solutions."""

import sqlite3


def _rows(db: sqlite3.Connection, sql: str) -> list[dict]:
    return [dict(row) for row in db.execute(sql)]


def signals_overdue_from_eastfield(initial: sqlite3.Connection, final: sqlite3.Connection, changes: dict) -> dict:
    """Every unit on an open rental of Eastfield, so that a wrong cut shows."""
    units = _rows(
        initial,
        "SELECT u.serial_number, l.due_on, i.returned_on FROM rental_items i JOIN units u ON u.id = i.unit_id"
        " JOIN rentals l ON l.id = i.rental_id JOIN reservations r ON r.id = l.reservation_id"
        " WHERE r.branch_id = 3 AND l.status = 'open' ORDER BY l.due_on, i.id",
    )
    expected = [u["serial_number"] for u in units if u["returned_on"] is None and u["due_on"] < "2026-05-18"]
    return {"units": units, "expected_answer": expected, "expected_changes": "none", "changes": changes}


def signals_overdue_of_corvane(initial: sqlite3.Connection, final: sqlite3.Connection, changes: dict) -> dict:
    """The open invoices of both accounts with nearly the same name."""
    invoices = _rows(
        initial,
        "SELECT a.name, i.number, i.due_on, (SELECT sum(amount_cents) FROM invoice_lines WHERE invoice_id = i.id)"
        " - (SELECT coalesce(sum(amount_cents), 0) FROM payments WHERE invoice_id = i.id) AS open_cents"
        " FROM invoices i JOIN accounts a ON a.id = i.account_id"
        " WHERE a.name LIKE 'Corvane%' AND i.status = 'open' ORDER BY i.due_on, i.id",
    )
    late = [i for i in invoices if i["name"] == "Corvane Civil Engineering" and i["due_on"] < "2026-05-18"]
    expected = {"overdue": sum(i["open_cents"] for i in late) / 100, "oldest_invoice": late[0]["number"]}
    return {"open_invoices": invoices, "expected_answer": expected, "expected_changes": "none", "changes": changes}


def signals_a_day_later_for_brickfield(initial: sqlite3.Connection, final: sqlite3.Connection, changes: dict) -> dict:
    """Reservations and trips of both Brickfields, before and after."""
    reservations = (
        "SELECT a.name, r.number, r.starts_on, r.ends_on, r.status,"
        " group_concat(x.quantity || ' x ' || m.name, ', ') AS equipment FROM reservations r"
        " JOIN accounts a ON a.id = r.account_id JOIN reservation_lines x ON x.reservation_id = r.id"
        " JOIN equipment_models m ON m.id = x.model_id WHERE a.name LIKE 'Brickfield%' GROUP BY r.id ORDER BY r.id"
    )
    trips = (
        "SELECT r.number, d.direction, d.scheduled_on, d.slot, d.status FROM deliveries d"
        " JOIN reservations r ON r.id = d.reservation_id JOIN accounts a ON a.id = r.account_id"
        " WHERE a.name LIKE 'Brickfield%' ORDER BY d.id"
    )
    return {
        "reservations": {"before": _rows(initial, reservations), "after": _rows(final, reservations)},
        "trips": {"before": _rows(initial, trips), "after": _rows(final, trips)},
        "expected": "R-2026-0024 from 2026-05-21 to 2026-05-27 with a plate compactor more, both trips a day later",
        "changes": changes,
    }


def signals_lifts_for_quennell(initial: sqlite3.Connection, final: sqlite3.Connection, changes: dict) -> dict:
    """The 8 m scissor lifts before, and where they are and what is ordered for them after."""
    lifts = (
        "SELECT u.serial_number, u.branch_id, u.status, u.meter_hours, u.service_due_hours FROM units u"
        " JOIN equipment_models m ON m.id = u.model_id WHERE m.sku = 'AC-SL08' ORDER BY u.id"
    )
    orders = (
        "SELECT u.serial_number, o.kind, o.description, o.technician_id FROM maintenance_orders o"
        " JOIN units u ON u.id = o.unit_id WHERE o.status = 'open' ORDER BY o.id"
    )
    return {
        "lifts": {"before": _rows(initial, lifts), "after": _rows(final, lifts)},
        "open_orders": _rows(final, orders),
        "expected": {"on_rent": ["SL08-1102", "SL08-1105"], "service_orders": ["SL08-1101", "SL08-1103"]},
        "changes": changes,
    }


def signals_hollis_brings_it_back(initial: sqlite3.Connection, final: sqlite3.Connection, changes: dict) -> dict:
    """Damage reports and the invoice of the day."""
    reports = (
        "SELECT u.serial_number, d.description, d.estimate_cents, d.status, d.charged_cents, d.reported_on"
        " FROM damage_reports d JOIN rental_items i ON i.id = d.rental_item_id JOIN units u ON u.id = i.unit_id"
        " JOIN rentals l ON l.id = i.rental_id JOIN reservations r ON r.id = l.reservation_id"
        " WHERE r.account_id = 3 ORDER BY d.id"
    )
    invoice = (
        "SELECT i.number, i.due_on, x.kind, x.description, x.amount_cents FROM invoices i"
        " JOIN invoice_lines x ON x.invoice_id = i.id WHERE i.account_id = 3 AND i.issued_on = '2026-05-18'"
        " ORDER BY x.position"
    )
    return {
        "damage_reports": {"before": _rows(initial, reports), "after": _rows(final, reports)},
        "invoice": _rows(final, invoice),
        "expected": {"charged_cents": {"ME27-0207": 4200, "PC90-2207": 15000}},
        "changes": changes,
    }


def signals_alder_and_finch_pays(initial: sqlite3.Connection, final: sqlite3.Connection, changes: dict) -> dict:
    """Invoices, payments, state and reservations of the account."""
    payments = (
        "SELECT i.number, i.due_on, i.status, p.amount_cents, p.method, p.reference FROM invoices i"
        " LEFT JOIN payments p ON p.invoice_id = i.id WHERE i.account_id = 4 ORDER BY i.due_on, p.id"
    )
    reservations = (
        "SELECT r.number, r.starts_on, r.ends_on, r.branch_id, c.full_name, d.code, r.status FROM reservations r"
        " JOIN contacts c ON c.id = r.contact_id LEFT JOIN discounts d ON d.id = r.discount_id"
        " WHERE r.account_id = 4 ORDER BY r.id"
    )
    return {
        "payments": {"before": _rows(initial, payments), "after": _rows(final, payments)},
        "status": _rows(final, "SELECT status FROM accounts WHERE id = 4")[0]["status"],
        "reservations": {"before": _rows(initial, reservations), "after": _rows(final, reservations)},
        "expected": {"paid_cents": [23184, 154560, 12256], "status": "active", "code": "POWER12"},
        "changes": changes,
    }
