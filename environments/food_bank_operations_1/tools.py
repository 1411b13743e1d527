"""Tools of a regional food bank: stock, agencies, orders and pickups."""
from datetime import date, timedelta
from typing import TypedDict
from typing import Literal


_AREAS = """SELECT * FROM (SELECT a.*, COALESCE(u.kg, 0) AS used_kg, capacity_kg - COALESCE(u.kg, 0) AS free_kg
FROM storage_areas a LEFT JOIN (SELECT storage_area_id, SUM(cases_in_house * case_kg) AS kg FROM lots l
JOIN items i ON i.id = item_id JOIN lot_stock ON lot_id = l.id GROUP BY 1) u ON storage_area_id = a.id)"""


_LINES = """SELECT ol.id, item_id, i.name AS item_name, category, storage_class, case_kg, cases,
(SELECT COALESCE(SUM(a.cases), 0) FROM allocations a WHERE order_line_id = ol.id) AS cases_allocated
FROM order_lines ol JOIN items i ON i.id = item_id"""


_ORDERS = "SELECT o.*, g.name AS agency_name FROM orders o JOIN agencies g ON g.id = agency_id"


class _Lot(TypedDict):
    """A lot of a donation.

    Args:
        item_id: Id of the item.
        cases: Number of cases, 1 to 1000.
        best_before_on: A day, YYYY-MM-DD, today or later.
        storage_area_id: Id of the storage area that it goes to.
    """

    item_id: int
    cases: int
    best_before_on: str
    storage_area_id: int


class _Line(TypedDict):
    """A line of an order.

    Args:
        item_id: Id of the item.
        cases: Number of cases, 1 to 1000.
    """

    item_id: int
    cases: int


def _rows(db, sql, *values):
    return [dict(row) for row in db.execute(sql, values)]


def _top(db, limit, sql, *values):
    return _rows(db, sql, *values)[: _number("limit", limit, 50)]


def _one(db, table, key):
    found = _rows(db, f"SELECT * FROM {table} WHERE id = ?", key)
    if not found:
        raise LookupError(f"there is no row {key} in {table}; search for the right id")
    return found[0]


def _insert(db, table, **row):
    sql = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"
    return _one(db, table, db.execute(sql, [*row.values()]).lastrowid)


def _today():
    return date.today().isoformat()


def _day(text):
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise ValueError("not a day, YYYY-MM-DD") from None
    if day.isoformat() != text or not 2000 <= day.year <= 2099:
        raise ValueError("not a day, YYYY-MM-DD, from 2000 to 2099")
    return text


def _coming(text):
    if _day(text) < _today():
        raise ValueError("the day is in the past; give today or a later one")
    return text


def _period(first, last):
    return _day("2000-01-01" if first is None else first), _day("2099-12-31" if last is None else last)


def _number(name, value, most, least=1):
    if not least <= value <= most:
        raise ValueError(f"{name} must be from {least} to {most}")
    return value


def _text(text, most=200):
    text = text.strip()
    if not 1 <= len(text) <= most or "\0" in text:
        raise ValueError(f"the text must have 1 to {most} characters")
    return text


def _shift(day, days):
    return (date.fromisoformat(day) + timedelta(days)).isoformat()


def _check_area(db, area_id, item, cases):
    area = _rows(db, f"{_AREAS} WHERE id = ?", area_id)[0]
    if not area["is_active"] or area["storage_class"] != item["storage_class"]:
        raise RuntimeError(f"area {area['code']} is not active, or not {item['storage_class']}")
    if cases * item["case_kg"] > area["free_kg"]:
        raise RuntimeError(f"area {area['code']} has only {area['free_kg']} kg free")


def _check_agency(db, agency, day, lines):
    sql = "SELECT * FROM inspections WHERE agency_id = ? AND inspected_on < ? ORDER BY inspected_on DESC LIMIT 1"
    latest = _rows(db, sql, agency["id"], _today())
    if agency["status"] != "active":
        raise PermissionError(f"the agency is {agency['status']}")
    if not latest or latest[0]["result"] != "passed" or latest[0]["inspected_on"] < _shift(day, -365):
        raise PermissionError("the agency's latest inspection was not passed, or is too old on the collection day")
    has_cold = any(line["storage_class"] != "ambient" for line in lines)
    if has_cold and (agency["cold_chain_ends_on"] or "") < day:
        raise PermissionError("the agency has no cold-chain certificate that is valid on the collection day")


def _counted_kg(lines):
    return sum(line["cases"] * line["case_kg"] for line in lines if line["category"] != "produce")


def _lines(db, order_id):
    return _rows(db, f"{_LINES} WHERE order_id = ? ORDER BY ol.id", order_id)


def _order_in(db, order_id, *states):
    order = _one(db, "orders", order_id)
    if order["status"] not in states:
        raise RuntimeError(f"the order is {order['status']}, not {' or '.join(states)}")
    return order


def _allocated(db, lot_id):
    sql = """SELECT order_line_id, order_id, o.code AS order_code, o.status AS order_status, a.cases
    FROM allocations a JOIN order_lines ol ON ol.id = order_line_id JOIN orders o ON o.id = order_id
    WHERE lot_id = ? ORDER BY order_line_id"""
    return _rows(db, sql, lot_id)


def _code(db, table, letter):
    return f"{letter}-{_rows(db, f'SELECT COALESCE(MAX(id), 0) + 1 AS n FROM {table}')[0]['n']:04}"


def _charge(db, order, kind, cents):
    if cents:
        owner = {"agency_id": order["agency_id"], "order_id": order["id"]}
        _insert(db, "charges", **owner, kind=kind, amount_cents=cents, charged_on=_today())
    return get_order(db, order["id"])


def search_items(
    db,
    query: str = "",
    category: Literal["tinned", "dry", "dairy", "frozen", "produce", "household"] | None = None,
    storage_class: Literal["ambient", "chilled", "frozen"] | None = None,
    limit: int = 20,
):
    """Find items by name or SKU, in the order of their names.

    Args:
        query: Part of the name or SKU; case does not matter. Empty: every item.
        category: Only items of this category.
        storage_class: Only items of this storage class.
        limit: Most rows to return, 1 to 50.
    """
    sql = """SELECT * FROM items WHERE (instr(lower(name), lower(?1)) > 0 OR instr(lower(sku), lower(?1)) > 0)
    AND (?2 IS NULL OR category = ?2) AND (?3 IS NULL OR storage_class = ?3) ORDER BY name, id"""
    return _top(db, limit, sql, query, category, storage_class)


def list_storage_areas(
    db,
    storage_class: Literal["ambient", "chilled", "frozen"] | None = None,
    only_active: bool = False,
):
    """List storage areas with the kilograms that lie in them and those that are free, in the order of their
    codes.

    Args:
        storage_class: Only areas of this storage class.
        only_active: Only active areas.
    """
    sql = f"{_AREAS} WHERE (?1 IS NULL OR storage_class = ?1) AND is_active >= ?2 ORDER BY code, id"
    return _rows(db, sql, storage_class, only_active)


def search_donors(
    db,
    query: str = "",
    kind: Literal["farm", "shop", "wholesaler", "producer"] | None = None,
    limit: int = 20,
):
    """Find donors by name, in the order of their names.

    Args:
        query: Part of the name; case does not matter. Empty: every donor.
        kind: Only donors of this kind.
        limit: Most rows to return, 1 to 50.
    """
    sql = """SELECT * FROM donors WHERE instr(lower(name), lower(?1)) > 0 AND (?2 IS NULL OR kind = ?2)
    ORDER BY name, id"""
    return _top(db, limit, sql, query, kind)


def list_donations(
    db,
    donor_id: int | None = None,
    received_from: str | None = None,
    received_to: str | None = None,
    limit: int = 20,
):
    """List donations with the number of their lots, the latest first.

    Args:
        donor_id: Only donations of this donor.
        received_from: Only those received on or after this day, YYYY-MM-DD.
        received_to: Only those received on or before this day, YYYY-MM-DD.
        limit: Most rows to return, 1 to 50.
    """
    sql = """SELECT d.*, n.name AS donor_name, (SELECT COUNT(*) FROM lots WHERE donation_id = d.id) AS lots_count
    FROM donations d JOIN donors n ON n.id = donor_id WHERE (?1 IS NULL OR donor_id = ?1)
    AND received_on BETWEEN ?2 AND ?3 ORDER BY received_on DESC, d.id DESC"""
    return _top(db, limit, sql, donor_id, *_period(received_from, received_to))


def search_lots(
    db,
    item_id: int | None = None,
    storage_area_id: int | None = None,
    status: Literal["inbound", "released", "quarantined"] | None = None,
    best_before_from: str | None = None,
    best_before_to: str | None = None,
    limit: int = 20,
):
    """Find lots by best-before day, then code, with their cases in the house and those of them that are free:
    not allocated to an order yet to be collected.

    Args:
        item_id: Only lots of this item.
        storage_area_id: Only lots in this storage area.
        status: Only lots in this state.
        best_before_from: Only lots best before a day on or after this one, YYYY-MM-DD.
        best_before_to: Only lots best before a day on or before this one, YYYY-MM-DD.
        limit: Most rows to return, 1 to 50.
    """
    sql = """SELECT l.id, code, item_id, name AS item_name, best_before_on, status, storage_area_id,
    cases_in_house, cases_free FROM lots l JOIN items i ON i.id = item_id JOIN lot_stock ON lot_id = l.id
    WHERE (?1 IS NULL OR item_id = ?1) AND (?2 IS NULL OR storage_area_id = ?2) AND (?3 IS NULL OR status = ?3)
    AND best_before_on BETWEEN ?4 AND ?5 ORDER BY best_before_on, code, l.id"""
    return _top(db, limit, sql, item_id, storage_area_id, status, *_period(best_before_from, best_before_to))


def get_lot(db, lot_id: int):
    """Show one lot with its stock, write-offs and allocations.

    Args:
        lot_id: Id of the lot.
    """
    lot = _one(db, "lots", lot_id)
    sql = """SELECT donor_id, n.name AS donor_name, received_on, i.name AS item_name, case_kg,
    a.code AS storage_area_code, cases_in_house, cases_free FROM lots l JOIN donations d ON d.id = donation_id
    JOIN donors n ON n.id = donor_id JOIN items i ON i.id = item_id JOIN storage_areas a ON a.id = storage_area_id
    JOIN lot_stock ON lot_id = l.id WHERE l.id = ?"""
    lot |= _rows(db, sql, lot_id)[0]
    sql = "SELECT id, cases, reason, written_off_on FROM write_offs WHERE lot_id = ? ORDER BY id"
    return {**lot, "write_offs": _rows(db, sql, lot_id), "allocations": _allocated(db, lot_id)}


def search_agencies(
    db,
    query: str = "",
    status: Literal["active", "suspended", "closed"] | None = None,
    limit: int = 20,
):
    """Find agencies by name, in the order of their names.

    Args:
        query: Part of the name; case does not matter. Empty: every agency.
        status: Only agencies in this state.
        limit: Most rows to return, 1 to 50.
    """
    sql = """SELECT * FROM agencies WHERE instr(lower(name), lower(?1)) > 0 AND (?2 IS NULL OR status = ?2)
    ORDER BY name, id"""
    return _top(db, limit, sql, query, status)


def get_agency(db, agency_id: int):
    """Show one agency with its inspections (the latest first), charges, payments and what it owes.

    Args:
        agency_id: Id of the agency.
    """
    agency = _one(db, "agencies", agency_id)
    for table, order in ("inspections", "inspected_on DESC"), ("charges", "charged_on"), ("payments", "paid_on"):
        agency[table] = _rows(db, f"SELECT * FROM {table} WHERE agency_id = ? ORDER BY {order}, id", agency_id)
    charged, paid = (sum(row["amount_cents"] for row in agency[table]) for table in ("charges", "payments"))
    return {**agency, "owed_cents": charged - paid}


def search_orders(
    db,
    query: str = "",
    agency_id: int | None = None,
    status: Literal["placed", "on_hold", "collected", "cancelled"] | None = None,
    collection_from: str | None = None,
    collection_to: str | None = None,
    limit: int = 20,
):
    """Find orders by code or agency, by collection day, then id.

    Args:
        query: Part of the order's code or the agency's name; case does not matter. Empty: every order.
        agency_id: Only orders of this agency.
        status: Only orders in this state.
        collection_from: Only orders for collection on or after this day, YYYY-MM-DD.
        collection_to: Only orders for collection on or before this day, YYYY-MM-DD.
        limit: Most rows to return, 1 to 50.
    """
    sql = f"""{_ORDERS} WHERE (instr(lower(o.code), lower(?1)) > 0 OR instr(lower(g.name), lower(?1)) > 0)
    AND (?2 IS NULL OR agency_id = ?2) AND (?3 IS NULL OR o.status = ?3) AND collection_on BETWEEN ?4 AND ?5
    ORDER BY collection_on, o.id"""
    return _top(db, limit, sql, query, agency_id, status, *_period(collection_from, collection_to))


def get_order(db, order_id: int):
    """Show one order with its lines, the stock allocated to them and its charges.

    Args:
        order_id: Id of the order.
    """
    _one(db, "orders", order_id)
    order = _rows(db, f"{_ORDERS} WHERE o.id = ?", order_id)[0]
    sql = """SELECT order_line_id, lot_id, code AS lot_code, a.cases FROM allocations a
    JOIN order_lines ol ON ol.id = order_line_id JOIN lots l ON l.id = lot_id
    WHERE order_id = ? ORDER BY order_line_id, best_before_on, code"""
    order |= {"lines": _lines(db, order_id), "allocations": _rows(db, sql, order_id)}
    return {**order, "charges": _rows(db, "SELECT * FROM charges WHERE order_id = ? ORDER BY id", order_id)}


def list_vehicles(
    db,
    status: Literal["in_service", "in_repair", "retired"] | None = None,
    is_refrigerated: bool | None = None,
):
    """List vehicles, in the order of their plates.

    Args:
        status: Only vehicles in this state.
        is_refrigerated: Only refrigerated vehicles, or only the others.
    """
    sql = """SELECT * FROM vehicles WHERE (?1 IS NULL OR status = ?1) AND (?2 IS NULL OR is_refrigerated = ?2)
    ORDER BY plate, id"""
    return _rows(db, sql, status, is_refrigerated)


def list_staff(
    db,
    role: Literal["coordinator", "warehouse", "driver", "inspector"] | None = None,
    only_active: bool = False,
):
    """List the people who work here, in the order of their names.

    Args:
        role: Only people with this role.
        only_active: Only active people.
    """
    sql = "SELECT * FROM staff WHERE (?1 IS NULL OR role = ?1) AND is_active >= ?2 ORDER BY full_name, id"
    return _rows(db, sql, role, only_active)


def search_pickups(
    db,
    donor_id: int | None = None,
    vehicle_id: int | None = None,
    driver_id: int | None = None,
    status: Literal["planned", "done", "cancelled"] | None = None,
    planned_from: str | None = None,
    planned_to: str | None = None,
    limit: int = 20,
):
    """Find pickups by day, mornings first, then id.

    Args:
        donor_id: Only pickups at this donor.
        vehicle_id: Only pickups with this vehicle.
        driver_id: Only pickups with this driver.
        status: Only pickups in this state.
        planned_from: Only pickups on or after this day, YYYY-MM-DD.
        planned_to: Only pickups on or before this day, YYYY-MM-DD.
        limit: Most rows to return, 1 to 50.
    """
    sql = """SELECT p.*, n.name AS donor_name, plate, full_name AS driver_name FROM pickups p
    JOIN donors n ON n.id = donor_id JOIN vehicles v ON v.id = vehicle_id JOIN staff s ON s.id = driver_id
    WHERE (?1 IS NULL OR donor_id = ?1) AND (?2 IS NULL OR vehicle_id = ?2) AND (?3 IS NULL OR driver_id = ?3)
    AND (?4 IS NULL OR p.status = ?4) AND planned_on BETWEEN ?5 AND ?6 ORDER BY planned_on, half_day DESC, p.id"""
    return _top(db, limit, sql, donor_id, vehicle_id, driver_id, status, *_period(planned_from, planned_to))


def record_donation(db, donor_id: int, lots: list[_Lot]):
    """Record a donation that has arrived today and put its lots away in the given order; they are inbound
    until released.

    Args:
        donor_id: Id of the donor.
        lots: 1 or more lots, each {item_id: int, cases: int, 1 to 1000, best_before_on: str, a day,
            YYYY-MM-DD, today or later, storage_area_id: int}.
    """
    if not _one(db, "donors", donor_id)["is_active"]:
        raise RuntimeError("the donor is not active")
    if not lots:
        raise ValueError("give at least one lot")
    donation = _insert(db, "donations", donor_id=donor_id, received_on=_today())
    donation["lots"] = []
    for lot in lots:
        item, area = _one(db, "items", lot["item_id"]), _one(db, "storage_areas", lot["storage_area_id"])
        cases, day = _number("cases", lot["cases"], 1000), _coming(lot["best_before_on"])
        _check_area(db, area["id"], item, cases)
        ids = {"donation_id": donation["id"], "item_id": item["id"], "storage_area_id": area["id"]}
        new = _insert(db, "lots", code=_code(db, "lots", "L"), **ids, cases_received=cases, best_before_on=day)
        donation["lots"].append(new)
    return donation


def release_lot(db, lot_id: int):
    """Release an inbound or quarantined lot, so that it may be allocated; a quarantine reason is cleared.

    Args:
        lot_id: Id of the lot.
    """
    lot = _one(db, "lots", lot_id)
    if lot["status"] == "released" or lot["best_before_on"] < _today():
        raise RuntimeError("the lot is released already, or its best-before day has passed")
    db.execute("UPDATE lots SET status = 'released', quarantine_reason = '' WHERE id = ?", (lot_id,))
    return get_lot(db, lot_id)


def quarantine_lot(db, lot_id: int, reason: str):
    """Quarantine a lot. What it had allocated to orders that are placed or on hold drops out of them.

    Args:
        lot_id: Id of the lot.
        reason: The reason, 1 to 200 characters.
    """
    if _one(db, "lots", lot_id)["status"] == "quarantined":
        raise RuntimeError("the lot is quarantined already")
    dropped = [row for row in _allocated(db, lot_id) if row.pop("order_status") in ("placed", "on_hold")]
    sql = "UPDATE lots SET status = 'quarantined', quarantine_reason = ? WHERE id = ?"
    db.execute(sql, (_text(reason), lot_id))
    for row in dropped:
        sql = "DELETE FROM allocations WHERE order_line_id = ? AND lot_id = ?"
        db.execute(sql, (row["order_line_id"], lot_id))
    return {**get_lot(db, lot_id), "dropped": dropped}


def move_lot(db, lot_id: int, storage_area_id: int):
    """Move all that is in the house of a lot to another storage area.

    Args:
        lot_id: Id of the lot.
        storage_area_id: Id of the storage area that it goes to.
    """
    lot, area = get_lot(db, lot_id), _one(db, "storage_areas", storage_area_id)
    if lot["storage_area_id"] == area["id"] or not lot["cases_in_house"]:
        raise RuntimeError("the lot is in this area already, or none of it is in the house")
    _check_area(db, area["id"], _one(db, "items", lot["item_id"]), lot["cases_in_house"])
    db.execute("UPDATE lots SET storage_area_id = ? WHERE id = ?", (area["id"], lot_id))
    return get_lot(db, lot_id)


def write_off_cases(db, lot_id: int, cases: int, reason: str):
    """Write off free cases of a lot, as of today.

    Args:
        lot_id: Id of the lot.
        cases: Number of cases, 1 to 1000.
        reason: The reason, 1 to 200 characters.
    """
    lot = get_lot(db, lot_id)
    reason = _text(reason)
    if _number("cases", cases, 1000) > lot["cases_free"]:
        raise RuntimeError(f"the lot has only {lot['cases_free']} free cases")
    return _insert(db, "write_offs", lot_id=lot_id, cases=cases, reason=reason, written_off_on=_today())


def place_order(db, agency_id: int, collection_on: str, lines: list[_Line]):
    """Place an order for an agency; no stock is allocated yet.

    Args:
        agency_id: Id of the agency.
        collection_on: Day of collection, YYYY-MM-DD, today or later.
        lines: 1 or more lines, each {item_id: int, cases: int, 1 to 1000}; an item stands on one line only.
    """
    agency = _one(db, "agencies", agency_id)
    month = _coming(collection_on)[:7]
    wanted = [{**_one(db, "items", line["item_id"]), "cases": line["cases"]} for line in lines]
    if not wanted or len({line["id"] for line in wanted}) < len(wanted):
        raise ValueError("give at least one line, and each item on one line only")
    for line in wanted:
        _number("cases", line["cases"], 1000)
    _check_agency(db, agency, collection_on, wanted)
    sql = f"""{_LINES} JOIN orders o ON o.id = order_id
    WHERE agency_id = ? AND status <> 'cancelled' AND substr(collection_on, 1, 7) = ?"""
    taken = _rows(db, sql, agency_id, month)
    if _counted_kg(taken + wanted) > 2 * agency["households"]:
        raise PermissionError("the order goes beyond the agency's allowance of that month; order less")
    days = {"collection_on": collection_on, "placed_on": _today()}
    order = _insert(db, "orders", code=_code(db, "orders", "O"), agency_id=agency_id, **days)
    for line in wanted:
        _insert(db, "order_lines", order_id=order["id"], item_id=line["id"], cases=line["cases"])
    return get_order(db, order["id"])


def allocate_stock(db, order_line_id: int, lot_id: int, cases: int):
    """Allocate free cases of a released lot to a line of a placed order, besides those that the line has of
    it already.

    Args:
        order_line_id: Id of the order's line.
        lot_id: Id of the lot.
        cases: Number of cases, 1 to 1000.
    """
    line, lot = _one(db, "order_lines", order_line_id), get_lot(db, lot_id)
    _number("cases", cases, 1000)
    order = _order_in(db, line["order_id"], "placed")
    needed = _shift(order["collection_on"], 7)
    if lot["item_id"] != line["item_id"] or lot["best_before_on"] < needed:
        raise PermissionError(f"the lot must be of the line's item and best before {needed} or later")
    if lot["status"] != "released" or cases > lot["cases_free"]:
        raise RuntimeError(f"the lot is {lot['status']} and has {lot['cases_free']} free cases")
    missing = line["cases"] - _rows(db, f"{_LINES} WHERE ol.id = ?", line["id"])[0]["cases_allocated"]
    if cases > missing:
        raise RuntimeError(f"the line lacks only {missing} cases")
    sql = """INSERT INTO allocations (order_line_id, lot_id, cases) VALUES (?, ?, ?)
    ON CONFLICT (order_line_id, lot_id) DO UPDATE SET cases = cases + excluded.cases"""
    db.execute(sql, (line["id"], lot_id, cases))
    return get_order(db, order["id"])


def release_allocation(db, order_line_id: int, lot_id: int):
    """Give back to a lot all cases that a line of a placed or held order has of it.

    Args:
        order_line_id: Id of the order's line.
        lot_id: Id of the lot.
    """
    line, lot = _one(db, "order_lines", order_line_id), _one(db, "lots", lot_id)
    _order_in(db, line["order_id"], "placed", "on_hold")
    sql = "DELETE FROM allocations WHERE order_line_id = ? AND lot_id = ?"
    if not db.execute(sql, (line["id"], lot["id"])).rowcount:
        raise LookupError("the line has no cases of this lot")
    return get_order(db, line["order_id"])


def hold_order(db, order_id: int, reason: str):
    """Put a placed order on hold; its allocations stay.

    Args:
        order_id: Id of the order.
        reason: The reason, 1 to 200 characters.
    """
    _order_in(db, order_id, "placed")
    db.execute("UPDATE orders SET status = 'on_hold', hold_reason = ? WHERE id = ?", (_text(reason), order_id))
    return get_order(db, order_id)


def resume_order(db, order_id: int):
    """Take an order off hold, so that it is placed again.

    Args:
        order_id: Id of the order.
    """
    order = _order_in(db, order_id, "on_hold")
    _check_agency(db, _one(db, "agencies", order["agency_id"]), order["collection_on"], _lines(db, order_id))
    db.execute("UPDATE orders SET status = 'placed', hold_reason = '' WHERE id = ?", (order_id,))
    return get_order(db, order_id)


def cancel_order(db, order_id: int, fee_cents: int):
    """Cancel a placed or held order as of today: its allocations are given back, and the fee is charged.

    Args:
        order_id: Id of the order.
        fee_cents: Cancellation fee by the rules, in pence, 0 to 1000000; 0 where none is due.
    """
    order = _order_in(db, order_id, "placed", "on_hold")
    _number("fee_cents", fee_cents, 1_000_000, 0)
    sql = "DELETE FROM allocations WHERE order_line_id IN (SELECT id FROM order_lines WHERE order_id = ?)"
    db.execute(sql, (order_id,))
    sql = "UPDATE orders SET status = 'cancelled', hold_reason = '', cancelled_on = ? WHERE id = ?"
    db.execute(sql, (_today(), order_id))
    return _charge(db, order, "cancellation", fee_cents)


def collect_order(db, order_id: int, fee_cents: int):
    """Note that a placed order has been collected, and charge its handling fee as of today.

    Args:
        order_id: Id of the order.
        fee_cents: Handling fee by the rules, in pence, 0 to 1000000; 0 where none is due.
    """
    order = _order_in(db, order_id, "placed")
    _number("fee_cents", fee_cents, 1_000_000, 0)
    if any(line["cases_allocated"] < line["cases"] for line in _lines(db, order_id)):
        raise RuntimeError("a line of the order is not allocated in full")
    db.execute("UPDATE orders SET status = 'collected' WHERE id = ?", (order_id,))
    return _charge(db, order, "handling", fee_cents)


def plan_pickup(
    db,
    donor_id: int,
    planned_on: str,
    half_day: Literal["morning", "afternoon"],
    storage_class: Literal["ambient", "chilled", "frozen"],
    expected_kg: int,
    vehicle_id: int,
    driver_id: int,
):
    """Plan a pickup at a donor with a vehicle and a driver.

    Args:
        donor_id: Id of the donor.
        planned_on: Day of the pickup, YYYY-MM-DD, today or later.
        half_day: Half of the day.
        storage_class: Storage class of the goods.
        expected_kg: Expected kilograms, 1 to 20000.
        vehicle_id: Id of the vehicle.
        driver_id: Id of the driver, one of the staff.
    """
    donor, vehicle = _one(db, "donors", donor_id), _one(db, "vehicles", vehicle_id)
    driver = _one(db, "staff", driver_id)
    _coming(planned_on)
    _number("expected_kg", expected_kg, 20_000)
    if driver["role"] != "driver" or (storage_class != "ambient" and not vehicle["is_refrigerated"]):
        raise PermissionError("the person is no driver, or the vehicle is not refrigerated as the goods need it")
    if not donor["is_active"] or not driver["is_active"]:
        raise RuntimeError("the donor or the driver is not active")
    if vehicle["status"] != "in_service" or vehicle["payload_kg"] < expected_kg:
        raise RuntimeError(f"the vehicle is {vehicle['status']} and carries {vehicle['payload_kg']} kg")
    sql = """SELECT 1 FROM pickups WHERE planned_on = ? AND half_day = ? AND status <> 'cancelled'
    AND (vehicle_id = ? OR driver_id = ?)"""
    if _rows(db, sql, planned_on, half_day, vehicle_id, driver_id):
        raise RuntimeError("the vehicle or the driver has another pickup in that half-day")
    what = {"half_day": half_day, "storage_class": storage_class, "expected_kg": expected_kg}
    ids = {"donor_id": donor_id, "vehicle_id": vehicle_id, "driver_id": driver_id}
    return _insert(db, "pickups", planned_on=planned_on, **what, **ids)


def cancel_pickup(db, pickup_id: int):
    """Cancel a planned pickup; vehicle and driver are free again.

    Args:
        pickup_id: Id of the pickup.
    """
    if _one(db, "pickups", pickup_id)["status"] != "planned":
        raise RuntimeError("the pickup is done or cancelled")
    db.execute("UPDATE pickups SET status = 'cancelled' WHERE id = ?", (pickup_id,))
    return _one(db, "pickups", pickup_id)


def record_payment(db, agency_id: int, amount_cents: int, reference: str):
    """Record a payment that an agency has made today.

    Args:
        agency_id: Id of the agency.
        amount_cents: Amount in pence, 1 to 10000000.
        reference: Reference of the payment, 1 to 60 characters; no two payments share one.
    """
    _one(db, "agencies", agency_id)
    _number("amount_cents", amount_cents, 10_000_000)
    reference = _text(reference, 60)
    if _rows(db, "SELECT 1 FROM payments WHERE reference = ?", reference):
        raise RuntimeError("another payment has this reference")
    row = {"amount_cents": amount_cents, "paid_on": _today(), "reference": reference}
    return _insert(db, "payments", agency_id=agency_id, **row)


def record_inspection(
    db,
    agency_id: int,
    inspected_on: str,
    inspector_id: int,
    result: Literal["passed", "failed"],
):
    """Record the inspection of an agency.

    Args:
        agency_id: Id of the agency.
        inspected_on: Day of the inspection, YYYY-MM-DD, not in the future.
        inspector_id: Id of the inspector, one of the staff.
        result: Result of the inspection.
    """
    _one(db, "agencies", agency_id)
    inspector = _one(db, "staff", inspector_id)
    if _day(inspected_on) > _today():
        raise ValueError("the day is in the future; give today or an earlier one")
    if inspector["role"] != "inspector" or not inspector["is_active"]:
        raise PermissionError("the person is no active inspector")
    if _rows(db, "SELECT 1 FROM inspections WHERE agency_id = ? AND inspected_on = ?", agency_id, inspected_on):
        raise RuntimeError("the agency was inspected on that day already")
    row = {"inspected_on": inspected_on, "inspector_id": inspector_id, "result": result}
    return _insert(db, "inspections", agency_id=agency_id, **row)
