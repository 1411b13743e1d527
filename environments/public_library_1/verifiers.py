"""Facts about how a run ended, one function per task. Decisions are derived from the solutions."""

import sqlite3


def _rows(db: sqlite3.Connection, sql: str) -> list[dict]:
    return [dict(row) for row in db.execute(sql)]


def _before_and_after(initial: sqlite3.Connection, final: sqlite3.Connection, sql: str) -> dict:
    return {"before": _rows(initial, sql), "after": _rows(final, sql)}


def signals_overdue_at_millbrook(initial: sqlite3.Connection, final: sqlite3.Connection, changes: dict) -> dict:
    """Every overdue loan of Millbrook's copies, so that a wrong cut shows."""
    overdue = _rows(
        initial,
        "SELECT c.barcode, l.due_on, CAST(julianday('2026-04-13') - julianday(l.due_on) AS INTEGER) AS days_overdue"
        " FROM loans l JOIN copies c ON c.id = l.copy_id JOIN branches b ON b.id = c.branch_id"
        " WHERE b.code = 'millbrook' AND l.status = 'open' AND l.due_on < '2026-04-13' ORDER BY l.due_on",
    )
    return {
        "overdue_loans_of_millbrook_copies": overdue,
        "expected_answer": [loan["barcode"] for loan in overdue if loan["days_overdue"] > 14],
        "expected_changes": "none",
        "changes": changes,
    }


def signals_owed_by_ingeborg(initial: sqlite3.Connection, final: sqlite3.Connection, changes: dict) -> dict:
    """Her charges and those of the member with nearly the same name."""
    charges = _rows(
        initial,
        "SELECT m.full_name, c.kind, c.amount_cents, c.status, b.open_cents FROM charges c"
        " JOIN members m ON m.id = c.member_id JOIN charge_balances b ON b.charge_id = c.id"
        " WHERE m.full_name LIKE 'Ing%' ORDER BY c.id",
    )
    owed = sum(charge["open_cents"] for charge in charges if charge["full_name"] == "Ingeborg Adeyemi-Holm")
    return {"charges": charges, "expected_answer_euros": owed / 100, "expected_changes": "none", "changes": changes}


def signals_next_on_the_waiting_list(initial: sqlite3.Connection, final: sqlite3.Connection, changes: dict) -> dict:
    """The waiting list of the evening in question, in the order in which it is served."""
    waiting = _rows(
        initial,
        "SELECT m.full_name, m.email, r.registered_at FROM registrations r JOIN events e ON e.id = r.event_id"
        " JOIN members m ON m.id = r.member_id WHERE e.name = 'Poetry at the Pier' AND date(e.starts_at) = '2026-04-24'"
        " AND r.status = 'waitlisted' ORDER BY r.registered_at, r.id",
    )
    return {
        "waiting_list": waiting,
        "expected_answer": waiting[0]["email"],
        "expected_changes": "none",
        "changes": changes,
    }


def signals_most_wanted_novel(initial: sqlite3.Connection, final: sqlite3.Connection, changes: dict) -> dict:
    """Holds and copies of each novel by this author, the most wanted first."""
    novels = _rows(
        initial,
        "SELECT t.name AS title,"
        " (SELECT count(*) FROM holds h WHERE h.title_id = t.id AND h.status = 'waiting') AS waiting,"
        " (SELECT count(*) FROM copies c WHERE c.title_id = t.id AND NOT c.is_reference"
        " AND c.status NOT IN ('lost', 'withdrawn')) AS lendable_copies"
        " FROM titles t JOIN title_authors x ON x.title_id = t.id JOIN authors a ON a.id = x.author_id"
        " WHERE a.full_name = 'Tove Lindqvist-Amadi' AND t.subject = 'novel' ORDER BY waiting DESC, t.id",
    )
    return {"novels": novels, "expected_answer": novels[0], "expected_changes": "none", "changes": changes}


def signals_room_for_allotment_society(initial: sqlite3.Connection, final: sqlite3.Connection, changes: dict) -> dict:
    """All bookings at Central on that day and the rooms that could be meant."""
    bookings = (
        "SELECT k.id, r.name AS room, m.full_name AS member, k.starts_at, k.ends_at, k.attendees, k.purpose, k.status"
        " FROM room_bookings k JOIN rooms r ON r.id = k.room_id JOIN members m ON m.id = k.member_id"
        " WHERE r.branch_id = 1 AND date(k.starts_at) = '2026-04-16' ORDER BY k.starts_at, k.id"
    )
    return {
        "rooms_at_central": _rows(initial, "SELECT name, capacity, has_projector FROM rooms WHERE branch_id = 1"),
        "bookings_on_16_april": _before_and_after(initial, final, bookings),
        "expected_room": "Elm Room",
        "changes": changes,
    }


def signals_renew_mateos_loans(initial: sqlite3.Connection, final: sqlite3.Connection, changes: dict) -> dict:
    """His loans before and after, with what stands against renewing each."""
    loans = (
        "SELECT l.id, t.name AS title, l.due_on, l.renewals, l.status, (SELECT count(*) FROM holds h"
        " WHERE h.title_id = t.id AND h.status = 'waiting') AS waiting_holds FROM loans l JOIN copies c"
        " ON c.id = l.copy_id JOIN titles t ON t.id = c.title_id WHERE l.member_id = 3 AND l.id IN (9, 13, 19, 21, 23)"
        " ORDER BY l.due_on, l.id"
    )
    return {
        "loans": _before_and_after(initial, final, loans),
        "renewals_allowed_by_his_plan": 2,
        "loans_that_may_be_renewed": [21, 13],
        "changes": changes,
    }


def signals_later_bookbinding_date(initial: sqlite3.Connection, final: sqlite3.Connection, changes: dict) -> dict:
    """The dates with their places, and the registrations and fees of everybody concerned."""
    dates = (
        "SELECT e.id, e.starts_at, e.status, e.places, (SELECT count(*) FROM registrations r WHERE r.event_id = e.id"
        " AND r.status = 'registered') AS registered FROM events e WHERE e.name = 'Bookbinding for Beginners'"
        " ORDER BY e.starts_at"
    )
    registrations = (
        "SELECT r.event_id, m.full_name, r.status, c.amount_cents AS fee_cents, c.status AS fee_status"
        " FROM registrations r JOIN members m ON m.id = r.member_id LEFT JOIN charges c ON c.registration_id = r.id"
        " WHERE r.event_id IN (5, 9, 11, 12, 13) AND r.member_id IN (5, 6, 14, 17) ORDER BY r.event_id, m.full_name"
    )
    return {
        "dates": _before_and_after(initial, final, dates),
        "registrations": _before_and_after(initial, final, registrations),
        "expected_new_date": "2026-05-09T10:00",
        "changes": changes,
    }


def signals_desk_visit_of_ljubica(initial: sqlite3.Connection, final: sqlite3.Connection, changes: dict) -> dict:
    """Her loans, charges and holds, and what became of the two copies."""
    copies = "SELECT barcode, branch_id, status FROM copies WHERE barcode IN ('C-30092', 'C-30111') ORDER BY barcode"
    loans = (
        "SELECT c.barcode, l.due_on, l.status FROM loans l JOIN copies c ON c.id = l.copy_id WHERE l.member_id = 7"
        " ORDER BY l.id"
    )
    charges = (
        "SELECT c.kind, c.amount_cents, c.status, c.waived_on, (SELECT group_concat(p.method) FROM payments p"
        " WHERE p.charge_id = c.id) AS paid_by FROM charges c WHERE c.member_id = 7 ORDER BY c.id"
    )
    holds = (
        "SELECT t.name AS title, m.full_name AS member, b.code AS pickup_branch, h.status FROM holds h"
        " JOIN titles t ON t.id = h.title_id JOIN members m ON m.id = h.member_id"
        " JOIN branches b ON b.id = h.pickup_branch_id WHERE h.title_id IN (11, 19) ORDER BY h.id"
    )
    return {
        "copies": _before_and_after(initial, final, copies),
        "loans": _before_and_after(initial, final, loans),
        "charges": _before_and_after(initial, final, charges),
        "holds": _before_and_after(initial, final, holds),
        "waiving_allowed": False,
        "changes": changes,
    }


def signals_order_the_salt_cartographer(initial: sqlite3.Connection, final: sqlite3.Connection, changes: dict) -> dict:
    """New orders, suggestions for titles of this name, and the amount that should remain."""
    orders = (
        "SELECT o.id, s.name AS supplier, u.code AS budget, b.code AS branch, l.title_id, l.copies, l.price_cents"
        " FROM orders o JOIN suppliers s ON s.id = o.supplier_id JOIN budgets u ON u.id = o.budget_id"
        " JOIN branches b ON b.id = o.branch_id JOIN order_lines l ON l.order_id = o.id"
        " WHERE o.ordered_on = '2026-04-13' ORDER BY o.id, l.title_id"
    )
    suggestions = "SELECT id, wanted, status, reply FROM suggestions WHERE wanted LIKE 'The Salt%' ORDER BY id"
    offers = (
        "SELECT s.name, s.delivery_days, s.is_active, o.price_cents FROM offers o JOIN suppliers s"
        " ON s.id = o.supplier_id WHERE o.title_id = 5 ORDER BY o.price_cents, s.delivery_days"
    )
    used = _rows(
        initial,
        "SELECT sum(l.copies * l.price_cents) AS cents FROM orders o JOIN order_lines l ON l.order_id = o.id"
        " WHERE o.budget_id = 2 AND o.status <> 'cancelled'",
    )[0]["cents"]
    allotted = _rows(initial, "SELECT allotted_cents AS cents FROM budgets WHERE id = 2")[0]["cents"]
    return {
        "offers": _rows(initial, offers),
        "orders_of_today": _before_and_after(initial, final, orders),
        "suggestions": _before_and_after(initial, final, suggestions),
        "expected_answer_euros": (allotted - used - 4 * 1595) / 100,
        "changes": changes,
    }


def signals_rosalind_settles_up(initial: sqlite3.Connection, final: sqlite3.Connection, changes: dict) -> dict:
    """Her loans, charges and payments and the end of her membership."""
    loans = (
        "SELECT t.name AS title, l.status FROM loans l JOIN copies c ON c.id = l.copy_id"
        " JOIN titles t ON t.id = c.title_id WHERE l.member_id = 9 ORDER BY l.id"
    )
    charges = (
        "SELECT c.kind, c.amount_cents, c.status, b.open_cents FROM charges c"
        " JOIN charge_balances b ON b.charge_id = c.id WHERE c.member_id = 9 ORDER BY c.id"
    )
    payments = (
        "SELECT c.kind, p.amount_cents, p.method FROM payments p JOIN charges c ON c.id = p.charge_id"
        " WHERE c.member_id = 9 AND p.paid_on = '2026-04-13' ORDER BY p.id"
    )
    membership = "SELECT plan_id, expires_on, status FROM members WHERE id = 9"
    return {
        "loans": _before_and_after(initial, final, loans),
        "charges": _before_and_after(initial, final, charges),
        "payments_of_today": _before_and_after(initial, final, payments),
        "membership": _before_and_after(initial, final, membership),
        "expected_answer": {"paid": 95.30, "member_until": "2027-05-02"},
        "changes": changes,
    }
