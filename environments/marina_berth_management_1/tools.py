"""Tools of a marina's harbour office."""
import re
from datetime import date, datetime, timedelta
from typing import TypedDict
from typing import Literal


_BOAT = "SELECT b.*, c.full_name AS owner_name FROM boats b JOIN customers c ON c.id = b.customer_id"


_SIZES = "b.name AS boat_name, b.length_cm, b.beam_cm, b.draught_cm, b.customer_id, b.owner_name"


_SQL = {
    "boats": _BOAT,
    "berths": """SELECT e.id, e.code, p.code AS pontoon_code, p.has_power, s.full_name AS warden_name, e.purpose,
    e.length_cm, e.width_cm, e.depth_cm, e.rate_cents, e.season_fee_cents
    FROM berths e JOIN pontoons p ON p.id = e.pontoon_id JOIN staff s ON s.id = p.warden_id""",
    "contracts": f"""SELECT k.*, e.code AS berth_code, p.code AS pontoon_code, b.name AS boat_name, b.customer_id,
    b.owner_name FROM contracts k JOIN berths e ON e.id = k.berth_id JOIN pontoons p ON p.id = e.pontoon_id
    JOIN ({_BOAT}) b ON b.id = k.boat_id""",
    "visits": f"""SELECT v.*, b.hull, {_SIZES}, e.code AS berth_code
    FROM visits v JOIN ({_BOAT}) b ON b.id = v.boat_id JOIN berths e ON e.id = v.berth_id""",
    "waiting_entries": f"SELECT w.*, {_SIZES} FROM waiting_entries w JOIN ({_BOAT}) b ON b.id = w.boat_id",
    "invoices": """SELECT *, iif(status = 'void', 0, total_cents - paid_cents) AS unpaid_cents FROM (
    SELECT i.*, c.full_name AS owner_name,
    (SELECT coalesce(sum(amount_cents), 0) FROM invoice_lines WHERE invoice_id = i.id) AS total_cents,
    (SELECT coalesce(sum(amount_cents), 0) FROM payments WHERE invoice_id = i.id) AS paid_cents
    FROM invoices i JOIN customers c ON c.id = i.customer_id)""",
    "lifts": f"SELECT l.*, b.name AS boat_name, b.owner_name FROM lifts l JOIN ({_BOAT}) b ON b.id = l.boat_id",
}


_LIVE = "status IN ('booked', 'checked_in')"


_CLEAR = f"""NOT EXISTS (SELECT 1 FROM closures WHERE berth_id = t.id AND starts_on < ?2 AND ends_on >= ?1)
AND NOT EXISTS (SELECT 1 FROM visits WHERE berth_id = t.id AND {_LIVE} AND arrives_on < ?2 AND departs_on > ?1)"""


_OPEN = f"""{_CLEAR} AND (purpose = 'visitor' OR EXISTS (SELECT 1 FROM contracts k JOIN absences a
ON a.contract_id = k.id WHERE k.berth_id = t.id AND a.leaves_on <= ?1 AND a.returns_on >= ?2))"""


_UNLET = f"""{_CLEAR} AND NOT EXISTS
(SELECT 1 FROM contracts WHERE berth_id = t.id AND starts_on < ?2 AND ends_on >= ?1)"""


class InvoiceLine(TypedDict):
    """One line of an invoice.

    Args:
        description: What it is for, 1 to 80 characters.
        amount_cents: Amount in cents, -10000000 to 10000000, not 0.
    """

    description: str
    amount_cents: int


def _rows(db, table, where, order, *values):
    source = _SQL.get(table, f"SELECT * FROM {table}")
    sql = f"SELECT * FROM ({source}) AS t WHERE {where} ORDER BY {order}, id"
    return [dict(row) for row in db.execute(sql, values)]


def _get(db, table, key, status=None):
    found = _rows(db, table, "id = ?", "id", key)
    if not found:
        raise LookupError(f"{table} has no row with the id {key}; search for it")
    if status and found[0]["status"] != status:
        raise RuntimeError(f"its status is {found[0]['status']}, not {status}")
    return found[0]


def _find(db, table, order, limit, query="", columns="", where="1", values=(), **equal):
    _within("limit", limit, 1, 100)
    rows = _rows(db, table, where, order, *values)
    rows = [row for row in rows if all(value in (None, row[name]) for name, value in equal.items())]
    if query:
        wanted = query.casefold()
        rows = [row for row in rows if any(wanted in row[name].casefold() for name in columns.split())]
    return rows[:limit]


def _add(db, table, **row):
    sql = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"
    return _get(db, table, db.execute(sql, [*row.values()]).lastrowid)


def _add_numbered(db, table, prefix, **row):
    last = _rows(db, table, "1", "id DESC")[:1]
    key = last[0]["id"] + 1 if last else 1
    return _add(db, table, id=key, number=f"{prefix}-{key:05}", **row)


def _refuse_any(db, table, where, message, *values):
    if _rows(db, table, where, "id", *values):
        raise RuntimeError(message)


def _within(name, number, least, most):
    if not least <= number <= most:
        raise ValueError(f"{name} must be {least} to {most}")


def _texts(**texts):
    for name, text in texts.items():
        if not text.strip() or len(text) > 80:
            raise ValueError(f"{name} must have 1 to 80 characters")


def _today():
    return date.today().isoformat()


def _day(text, earliest="2000-01-01"):
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise ValueError("not a day, YYYY-MM-DD") from None
    if day.isoformat() != text or not earliest <= text <= "2099-12-31":
        raise ValueError(f"give a day, YYYY-MM-DD, from {earliest} to 2099-12-31")
    return day


def _days(*texts):
    for text in texts:
        if text is not None:
            _day(text)


def _stay(first, last):
    _day(first, _today())
    _day(last, first)
    if first == last:
        raise ValueError("the last day must be later than the first")


def _crane_hour(db, text):
    day = _day(text[:10])
    if day.weekday() > 4 or not re.fullmatch("T(0[89]|1[0-5]):00", text[10:]):
        raise ValueError("the crane lifts Monday to Friday, at full hours from 08:00 to 15:00: YYYY-MM-DDTHH:MM")
    if text <= datetime.now().isoformat(timespec="minutes"):
        raise ValueError("the hour must be after now")
    _refuse_any(db, "lifts", "starts_at = ? AND status <> 'cancelled'", "the hour is taken; see search_lifts", text)


def _check_berth(db, boat, berth, first, end, where):
    for size, room, spare in (("length_cm", "length_cm", 50), ("beam_cm", "width_cm", 60), ("draught_cm", "depth_cm", 30)):
        if boat and boat[size] + spare > berth[room]:
            raise RuntimeError(f"the boat does not fit: the {room} of the berth must be at least {boat[size] + spare}")
    if not _rows(db, "berths", f"{where} AND id = ?3", "id", first, end, berth["id"]):
        raise RuntimeError(f"berth {berth['code']} is not free at that time; see get_berth or list_free_berths")


def _day_after(text):
    return (_day(text) + timedelta(days=1)).isoformat()


def search_customers(db, query: str = "", limit: int = 20):
    """Find boat owners, in the order of their names.

    Args:
        query: Part of the name, e-mail address or city; case does not matter. Empty: every owner.
        limit: Most owners to return, 1 to 100.
    """
    return _find(db, "customers", "full_name", limit, query, "full_name email city")


def get_customer(db, customer_id: int):
    """One boat owner with boats and unpaid invoices, the earliest due first; void and fully paid invoices are
    left out.

    Args:
        customer_id: Id of the owner.
    """
    customer = _get(db, "customers", customer_id)
    customer["boats"] = _rows(db, "boats", "customer_id = ?", "name", customer_id)
    unpaid = "customer_id = ? AND unpaid_cents > 0"
    customer["unpaid_invoices"] = _rows(db, "invoices", unpaid, "due_on", customer_id)
    return customer


def search_boats(
    db,
    query: str = "",
    customer_id: int | None = None,
    hull: Literal["monohull", "multihull"] | None = None,
    limit: int = 20,
):
    """Find boats with their sizes and owners, in the order of the boats' names.

    Args:
        query: Part of the boat's name, its registration or its owner's name; case does not matter. Empty:
            every boat.
        customer_id: Only boats of this owner.
        hull: Only boats with this kind of hull.
        limit: Most boats to return, 1 to 100.
    """
    columns = "name registration owner_name"
    return _find(db, "boats", "name", limit, query, columns, customer_id=customer_id, hull=hull)


def get_boat(db, boat_id: int):
    """One boat with its liability policies, seasonal contracts and visits, each in the order of their first
    days.

    Args:
        boat_id: Id of the boat.
    """
    boat = _get(db, "boats", boat_id)
    for table, order in (("policies", "starts_on"), ("contracts", "starts_on"), ("visits", "arrives_on")):
        boat[table] = _rows(db, table, "boat_id = ?", order, boat_id)
    return boat


def search_berths(
    db,
    query: str = "",
    pontoon_code: str | None = None,
    purpose: Literal["seasonal", "visitor"] | None = None,
    limit: int = 50,
):
    """Find berths, whether let or not, in the order of their codes.

    Args:
        query: Part of the berth's code; case does not matter. Empty: every berth.
        pontoon_code: Only berths of the pontoon with exactly this code, such as A.
        purpose: Only berths for this purpose.
        limit: Most berths to return, 1 to 100.
    """
    return _find(db, "berths", "code", limit, query, "code", pontoon_code=pontoon_code, purpose=purpose)


def get_berth(db, berth_id: int):
    """One berth with its contracts, their announced absences, closures, and the visits booked or checked in
    there, each in the order of their first days.

    Args:
        berth_id: Id of the berth.
    """
    berth = _get(db, "berths", berth_id)
    berth["contracts"] = _rows(db, "contracts", "berth_id = ?", "starts_on", berth_id)
    away = "contract_id IN (SELECT id FROM contracts WHERE berth_id = ?)"
    berth["absences"] = _rows(db, "absences", away, "leaves_on", berth_id)
    berth["closures"] = _rows(db, "closures", "berth_id = ?", "starts_on", berth_id)
    berth["visits"] = _rows(db, "visits", f"berth_id = ? AND {_LIVE}", "arrives_on", berth_id)
    return berth


def list_free_berths(
    db,
    arrives_on: str,
    departs_on: str,
    min_length_cm: int = 0,
    min_width_cm: int = 0,
    min_depth_cm: int = 0,
    has_power: bool | None = None,
    limit: int = 50,
):
    """Berths open to visitors on every night of a stay, in the order of their codes: visitor berths, and
    seasonal berths whose holder is absent on all these nights, unless closed or taken by a visit on any of
    them.

    Args:
        arrives_on: First day of the stay, YYYY-MM-DD, today or later.
        departs_on: Day of departure, YYYY-MM-DD, later than arrives_on.
        min_length_cm: Only berths at least this long, in cm.
        min_width_cm: Only berths at least this wide, in cm.
        min_depth_cm: Only berths at least this deep, in cm.
        has_power: Only berths on pontoons with (true) or without (false) shore power.
        limit: Most berths to return, 1 to 100.
    """
    _stay(arrives_on, departs_on)
    where = f"{_OPEN} AND length_cm >= ?3 AND width_cm >= ?4 AND depth_cm >= ?5"
    values = (arrives_on, departs_on, min_length_cm, min_width_cm, min_depth_cm)
    return _find(db, "berths", "code", limit, where=where, values=values, has_power=has_power)


def search_contracts(
    db,
    pontoon_code: str | None = None,
    customer_id: int | None = None,
    in_force_on: str | None = None,
    limit: int = 50,
):
    """Find seasonal contracts, in the order of the berths' codes, then of their first days.

    Args:
        pontoon_code: Only contracts for berths of the pontoon with exactly this code, such as A.
        customer_id: Only contracts of this owner.
        in_force_on: Only contracts that begin on or before this day, YYYY-MM-DD, and end on or after it.
        limit: Most contracts to return, 1 to 100.
    """
    _days(in_force_on)
    where = "?1 IS NULL OR ?1 BETWEEN starts_on AND ends_on"
    equal = {"pontoon_code": pontoon_code, "customer_id": customer_id}
    return _find(db, "contracts", "berth_code, starts_on", limit, where=where, values=(in_force_on,), **equal)


def search_visits(
    db,
    query: str = "",
    berth_id: int | None = None,
    status: Literal["booked", "checked_in", "checked_out", "cancelled"] | None = None,
    arrives_from: str | None = None,
    arrives_until: str | None = None,
    limit: int = 50,
):
    """Find visits with the sizes of their boats, in the order of their days of arrival.

    Args:
        query: Part of the visit's number, the boat's name or the owner's name; case does not matter. Empty:
            every visit.
        berth_id: Only visits at this berth.
        status: Only visits in this state.
        arrives_from: Only visits that arrive on or after this day, YYYY-MM-DD.
        arrives_until: Only visits that arrive on or before this day, YYYY-MM-DD.
        limit: Most visits to return, 1 to 100.
    """
    _days(arrives_from, arrives_until)
    where = "arrives_on >= coalesce(?1, arrives_on) AND arrives_on <= coalesce(?2, arrives_on)"
    given = {"where": where, "values": (arrives_from, arrives_until), "berth_id": berth_id, "status": status}
    return _find(db, "visits", "arrives_on", limit, query, "number boat_name owner_name", **given)


def list_waiting_entries(
    db,
    status: Literal["waiting", "placed", "withdrawn"] | None = None,
    limit: int = 50,
):
    """The waiting list for seasonal berths with the sizes of the boats, in the order of the entries' ids.

    Args:
        status: Only entries in this state.
        limit: Most entries to return, 1 to 100.
    """
    return _find(db, "waiting_entries", "id", limit, status=status)


def search_invoices(
    db,
    query: str = "",
    customer_id: int | None = None,
    due_before: str | None = None,
    only_unpaid: bool = False,
    limit: int = 50,
):
    """Find invoices with what they come to and what is still unpaid, in the order of their numbers.

    Args:
        query: Part of the invoice's number or the owner's name; case does not matter. Empty: every invoice.
        customer_id: Only invoices of this owner.
        due_before: Only invoices due before this day, YYYY-MM-DD.
        only_unpaid: Only issued invoices with an unpaid rest.
        limit: Most invoices to return, 1 to 100.
    """
    _days(due_before)
    where = "(?1 IS NULL OR due_on < ?1) AND (NOT ?2 OR unpaid_cents > 0)"
    given = {"where": where, "values": (due_before, only_unpaid), "customer_id": customer_id}
    return _find(db, "invoices", "number", limit, query, "number owner_name", **given)


def get_invoice(db, invoice_id: int):
    """One invoice with its lines and the payments on it.

    Args:
        invoice_id: Id of the invoice.
    """
    invoice = _get(db, "invoices", invoice_id)
    invoice["lines"] = _rows(db, "invoice_lines", "invoice_id = ?", "id", invoice_id)
    invoice["payments"] = _rows(db, "payments", "invoice_id = ?", "id", invoice_id)
    return invoice


def search_lifts(
    db,
    boat_id: int | None = None,
    status: Literal["booked", "done", "cancelled"] | None = None,
    starts_from: str | None = None,
    starts_until: str | None = None,
    limit: int = 50,
):
    """Find lifts of the crane, in the order of their hours.

    Args:
        boat_id: Only lifts of this boat.
        status: Only lifts in this state.
        starts_from: Only lifts on or after this day, YYYY-MM-DD.
        starts_until: Only lifts on or before this day, YYYY-MM-DD.
        limit: Most lifts to return, 1 to 100.
    """
    _days(starts_from, starts_until)
    where = "date(starts_at) >= coalesce(?1, date(starts_at)) AND date(starts_at) <= coalesce(?2, date(starts_at))"
    values = (starts_from, starts_until)
    return _find(db, "lifts", "starts_at", limit, where=where, values=values, boat_id=boat_id, status=status)


def list_lift_tariffs(db):
    """What the crane costs by the boat's weight, the lightest first; a boat pays the first tariff whose
    weight it does not exceed."""
    return _rows(db, "lift_tariffs", "1", "max_weight_kg")


def register_boat(
    db,
    customer_id: int,
    name: str,
    registration: str,
    hull: Literal["monohull", "multihull"],
    length_cm: int,
    beam_cm: int,
    draught_cm: int,
    weight_kg: int,
):
    """Enter a new boat of an owner.

    Args:
        customer_id: Id of the owner.
        name: Name of the boat, 1 to 80 characters.
        registration: Registration, 1 to 80 characters, which no other boat has.
        hull: Kind of hull.
        length_cm: Length in cm, 200 to 3000.
        beam_cm: Beam in cm, 80 to 1500.
        draught_cm: Draught in cm, 10 to 500.
        weight_kg: Weight in kg, 100 to 60000.
    """
    _get(db, "customers", customer_id)
    _texts(name=name, registration=registration)
    _within("length_cm", length_cm, 200, 3000)
    _within("beam_cm", beam_cm, 80, 1500)
    _within("draught_cm", draught_cm, 10, 500)
    _within("weight_kg", weight_kg, 100, 60000)
    _refuse_any(db, "boats", "registration = ?", "another boat has this registration", registration)
    sizes = {"length_cm": length_cm, "beam_cm": beam_cm, "draught_cm": draught_cm, "weight_kg": weight_kg}
    return _add(db, "boats", customer_id=customer_id, name=name, registration=registration, hull=hull, **sizes)


def record_policy(
    db,
    boat_id: int,
    policy_number: str,
    insurer: str,
    cover_cents: int,
    starts_on: str,
    ends_on: str,
):
    """Enter a liability policy of a boat.

    Args:
        boat_id: Id of the boat.
        policy_number: Number of the policy, 1 to 80 characters, which no other policy has.
        insurer: Name of the insurer, 1 to 80 characters.
        cover_cents: Sum that is covered, in cents, 1 to 100000000000.
        starts_on: First day, YYYY-MM-DD.
        ends_on: Last day, YYYY-MM-DD, the same as starts_on or later.
    """
    _get(db, "boats", boat_id)
    _texts(policy_number=policy_number, insurer=insurer)
    _within("cover_cents", cover_cents, 1, 100_000_000_000)
    _day(starts_on)
    _day(ends_on, starts_on)
    _refuse_any(db, "policies", "policy_number = ?", "another policy has this number", policy_number)
    policy = {"boat_id": boat_id, "policy_number": policy_number, "insurer": insurer, "cover_cents": cover_cents}
    return _add(db, "policies", **policy, starts_on=starts_on, ends_on=ends_on)


def book_visit(db, boat_id: int, berth_id: int, arrives_on: str, departs_on: str, price_cents: int):
    """Book a visit at a berth. The price is stored as given, and whether the rules prefer another berth is
    not checked.

    Args:
        boat_id: Id of the boat.
        berth_id: Id of the berth.
        arrives_on: Day of arrival, YYYY-MM-DD, today or later.
        departs_on: Day of departure, YYYY-MM-DD, later than arrives_on.
        price_cents: Price of the whole stay in cents, 0 to 10000000.
    """
    boat, berth = _get(db, "boats", boat_id), _get(db, "berths", berth_id)
    _stay(arrives_on, departs_on)
    _within("price_cents", price_cents, 0, 10_000_000)
    _check_berth(db, boat, berth, arrives_on, departs_on, _OPEN)
    other = f"boat_id = ? AND {_LIVE} AND arrives_on < ? AND departs_on > ?"
    _refuse_any(db, "visits", other, "the boat has another visit then", boat_id, departs_on, arrives_on)
    visit = {"boat_id": boat_id, "berth_id": berth_id, "arrives_on": arrives_on, "departs_on": departs_on}
    return _add_numbered(db, "visits", "V", **visit, price_cents=price_cents, booked_by=1)


def move_visit(db, visit_id: int, berth_id: int):
    """Move a booked visit to another berth for the same days and the same price.

    Args:
        visit_id: Id of the visit.
        berth_id: Id of the new berth.
    """
    visit, berth = _get(db, "visits", visit_id), _get(db, "berths", berth_id)
    _get(db, "visits", visit_id, "booked")
    if visit["berth_id"] == berth_id:
        raise RuntimeError("the visit lies at this berth already")
    _check_berth(db, visit, berth, visit["arrives_on"], visit["departs_on"], _OPEN)
    db.execute("UPDATE visits SET berth_id = ? WHERE id = ?", (berth_id, visit_id))
    return _get(db, "visits", visit_id)


def cancel_visit(db, visit_id: int, fee_cents: int):
    """Cancel a booked visit as of today. The fee is stored as given, and no invoice is written.

    Args:
        visit_id: Id of the visit.
        fee_cents: Cancellation fee in cents, at least 0 and at most the visit's price.
    """
    visit = _get(db, "visits", visit_id, "booked")
    _within("fee_cents", fee_cents, 0, visit["price_cents"])
    sql = "UPDATE visits SET status = 'cancelled', cancelled_on = ?, cancellation_fee_cents = ? WHERE id = ?"
    db.execute(sql, (_today(), fee_cents, visit_id))
    return _get(db, "visits", visit_id)


def check_in_visit(db, visit_id: int):
    """Check in a visit whose nights include today's. Policies and unpaid invoices are not looked at: see to
    them first.

    Args:
        visit_id: Id of the visit.
    """
    visit = _get(db, "visits", visit_id, "booked")
    if not visit["arrives_on"] <= _today() < visit["departs_on"]:
        raise RuntimeError(f"the visit is from {visit['arrives_on']} to {visit['departs_on']}, not today")
    db.execute("UPDATE visits SET status = 'checked_in' WHERE id = ?", (visit_id,))
    return _get(db, "visits", visit_id)


def check_out_visit(db, visit_id: int):
    """Check out a visit that is checked in; its berth is free from then on.

    Args:
        visit_id: Id of the visit.
    """
    _get(db, "visits", visit_id, "checked_in")
    db.execute("UPDATE visits SET status = 'checked_out' WHERE id = ?", (visit_id,))
    return _get(db, "visits", visit_id)


def create_contract(db, boat_id: int, berth_id: int, starts_on: str, fee_cents: int):
    """Let a seasonal berth to a boat until 31 October; the boat's waiting entry, if it has one, becomes
    placed. Policies, unpaid invoices, the order of the waiting list and the fee are not checked: see to them
    first.

    Args:
        boat_id: Id of the boat.
        berth_id: Id of the berth.
        starts_on: First day, YYYY-MM-DD, today or later, from 1 April to 31 October of its year.
        fee_cents: Fee for the contract in cents, 0 to 10000000.
    """
    boat, berth = _get(db, "boats", boat_id), _get(db, "berths", berth_id)
    _day(starts_on, _today())
    if not "04-01" <= starts_on[5:] <= "10-31":
        raise ValueError("a contract begins from 1 April to 31 October")
    _within("fee_cents", fee_cents, 0, 10_000_000)
    if berth["purpose"] != "seasonal":
        raise RuntimeError("the berth is for visitors; choose a seasonal one")
    ends_on = f"{starts_on[:4]}-10-31"
    _check_berth(db, boat, berth, starts_on, _day_after(ends_on), _UNLET)
    other = "boat_id = ? AND starts_on <= ? AND ends_on >= ?"
    _refuse_any(db, "contracts", other, "the boat has another contract then", boat_id, ends_on, starts_on)
    db.execute("UPDATE waiting_entries SET status = 'placed' WHERE boat_id = ? AND status = 'waiting'", (boat_id,))
    contract = {"berth_id": berth_id, "boat_id": boat_id, "starts_on": starts_on, "ends_on": ends_on}
    return _add(db, "contracts", **contract, fee_cents=fee_cents, signed_by=1)


def announce_absence(db, contract_id: int, leaves_on: str, returns_on: str):
    """Note that the holder of a seasonal berth is away, so that visitors may lie there from the night of
    leaving to the night before the return.

    Args:
        contract_id: Id of the contract.
        leaves_on: Day of leaving, YYYY-MM-DD, today or later.
        returns_on: Day of return, YYYY-MM-DD, later than leaves_on.
    """
    contract = _get(db, "contracts", contract_id)
    _stay(leaves_on, returns_on)
    if leaves_on < contract["starts_on"] or returns_on > contract["ends_on"]:
        raise RuntimeError(f"the contract is from {contract['starts_on']} to {contract['ends_on']}")
    other = "contract_id = ? AND leaves_on < ? AND returns_on > ?"
    _refuse_any(db, "absences", other, "another absence overlaps", contract_id, returns_on, leaves_on)
    return _add(db, "absences", contract_id=contract_id, leaves_on=leaves_on, returns_on=returns_on)


def add_waiting_entry(db, boat_id: int):
    """Put a boat on the waiting list for seasonal berths as of today.

    Args:
        boat_id: Id of the boat.
    """
    _get(db, "boats", boat_id)
    _refuse_any(db, "waiting_entries", "boat_id = ? AND status = 'waiting'", "the boat is waiting already", boat_id)
    return _add(db, "waiting_entries", boat_id=boat_id, joined_on=_today())


def withdraw_waiting_entry(db, waiting_entry_id: int):
    """Take a boat off the waiting list: its entry becomes withdrawn.

    Args:
        waiting_entry_id: Id of the entry.
    """
    _get(db, "waiting_entries", waiting_entry_id, "waiting")
    db.execute("UPDATE waiting_entries SET status = 'withdrawn' WHERE id = ?", (waiting_entry_id,))
    return _get(db, "waiting_entries", waiting_entry_id)


def create_invoice(db, customer_id: int, due_on: str, lines: list[InvoiceLine]):
    """Write an invoice dated today to an owner; it gets the next number.

    Args:
        customer_id: Id of the owner.
        due_on: Day on which it is due, YYYY-MM-DD, today or later.
        lines: 1 to 20 lines, each with description (str, 1 to 80 characters) and amount_cents (int, -10000000
            to 10000000, not 0, negative for a discount); their sum is positive.
    """
    _get(db, "customers", customer_id)
    _day(due_on, _today())
    _within("the number of lines", len(lines), 1, 20)
    for line in lines:
        _texts(description=line["description"])
        _within("amount_cents", line["amount_cents"], -10_000_000, 10_000_000)
    if 0 in [line["amount_cents"] for line in lines] or sum(line["amount_cents"] for line in lines) <= 0:
        raise ValueError("no amount may be 0, and their sum must be positive")
    invoice = {"customer_id": customer_id, "issued_on": _today(), "due_on": due_on}
    new_id = _add_numbered(db, "invoices", "INV", **invoice)["id"]
    for line in lines:
        _add(db, "invoice_lines", invoice_id=new_id, description=line["description"], amount_cents=line["amount_cents"])
    return get_invoice(db, new_id)


def record_payment(
    db,
    invoice_id: int,
    amount_cents: int,
    method: Literal["transfer", "card", "cash"],
    reference: str = "",
):
    """Put money that has come in today on one invoice.

    Args:
        invoice_id: Id of the invoice.
        amount_cents: Amount in cents, at least 1 and at most what is unpaid on the invoice.
        method: How it was paid.
        reference: Reference of the payment, 0 to 80 characters.
    """
    invoice = _get(db, "invoices", invoice_id, "issued")
    if invoice["unpaid_cents"] <= 0:
        raise RuntimeError("the invoice is fully paid")
    _within("amount_cents", amount_cents, 1, invoice["unpaid_cents"])
    _within("length of the reference", len(reference), 0, 80)
    payment = {"amount_cents": amount_cents, "method": method, "reference": reference}
    return _add(db, "payments", invoice_id=invoice_id, **payment, received_on=_today())


def book_lift(db, boat_id: int, kind: Literal["launch", "haul_out"], starts_at: str):
    """Book an hour of the crane for a boat, at the price of the tariff for its weight.

    Args:
        boat_id: Id of the boat.
        kind: Into the water or out of it.
        starts_at: The hour, YYYY-MM-DDTHH:MM, after now, Monday to Friday, a full hour from 08:00 to 15:00.
    """
    boat = _get(db, "boats", boat_id)
    _crane_hour(db, starts_at)
    tariffs = _rows(db, "lift_tariffs", "max_weight_kg >= ?", "max_weight_kg", boat["weight_kg"])
    if not tariffs:
        raise RuntimeError("the boat is too heavy for the crane")
    return _add(db, "lifts", boat_id=boat_id, kind=kind, starts_at=starts_at, price_cents=tariffs[0]["price_cents"])


def reschedule_lift(db, lift_id: int, starts_at: str):
    """Move a booked lift to another hour of the crane; its price stays.

    Args:
        lift_id: Id of the lift.
        starts_at: The new hour, YYYY-MM-DDTHH:MM, after now, Monday to Friday, a full hour from 08:00 to
            15:00.
    """
    _get(db, "lifts", lift_id, "booked")
    _crane_hour(db, starts_at)
    db.execute("UPDATE lifts SET starts_at = ? WHERE id = ?", (starts_at, lift_id))
    return _get(db, "lifts", lift_id)


def close_berth(db, berth_id: int, starts_on: str, ends_on: str, reason: str):
    """Close a berth for some nights; visits there must have been moved or cancelled before.

    Args:
        berth_id: Id of the berth.
        starts_on: Day on which the first closed night begins, YYYY-MM-DD, today or later.
        ends_on: Day on which the last closed night begins, YYYY-MM-DD, the same as starts_on or later.
        reason: Why, 1 to 80 characters.
    """
    berth = _get(db, "berths", berth_id)
    _day(starts_on, _today())
    _day(ends_on, starts_on)
    _texts(reason=reason)
    _check_berth(db, None, berth, starts_on, _day_after(ends_on), _UNLET)
    return _add(db, "closures", berth_id=berth_id, starts_on=starts_on, ends_on=ends_on, reason=reason)
