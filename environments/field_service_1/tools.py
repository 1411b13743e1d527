"""Tools of the Thermavent dispatch office: each public function is one tool, employee 1 is the acting user.

The format keeps all tools of an environment in one module, hence its length. Statements go through `_execute`, so that
values SQLite cannot store are refused like any other invalid argument."""

import sqlite3
from calendar import monthrange
from datetime import date, datetime, time, timedelta
from typing import Literal, TypedDict

_USER_ID = 1
_MAX_CENTS = 100_000_000
_BOOKABLE_DAYS = 180
_HOURS = {f"{hour:02}" for hour in range(24)}

Depot = Literal["NORTH", "EAST", "SOUTH"]
Skill = Literal["FGAS", "GEO", "VENT", "ELEC", "HYDRO"]
Sla = Literal["BRONZE", "SILVER", "GOLD"]
JobType = Literal["SERVICE", "REPAIR", "ELECTRIC", "BALANCE", "COMMISSION", "UPGRADE", "INSPECT"]
Model = Literal["AQ-8", "AQ-12", "GEO-15", "VX-300", "VX-500", "HB-6", "VR-90"]
Priority = Literal["normal", "high", "emergency"]


class PartLine(TypedDict):
    """A part and how many of it.

    Args:
        sku: The part's SKU.
        quantity: How many, at least 1.
    """

    sku: str
    quantity: int


def _execute(db: sqlite3.Connection, sql: str, *parameters: object) -> sqlite3.Cursor:
    try:
        return db.execute(sql, parameters)
    except (OverflowError, UnicodeEncodeError):
        raise ValueError("a number is too large or a text is not valid Unicode") from None


def _all(db: sqlite3.Connection, sql: str, *parameters: object) -> list[dict]:
    return [dict(row) for row in _execute(db, sql, *parameters)]


def _first(db: sqlite3.Connection, sql: str, *parameters: object) -> dict | None:
    row = _execute(db, sql, *parameters).fetchone()
    return None if row is None else dict(row)


def _one(db: sqlite3.Connection, what: str, sql: str, key: int | str) -> dict:
    row = _first(db, sql, key)
    if row is None:
        raise LookupError(f"there is no {what} {_shown(key)}")
    return row


def _shown(value: int | str) -> str:
    return repr(value if isinstance(value, int) else value[:60])


def _day(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"not a date YYYY-MM-DD: {_shown(text)}") from None
    if day.isoformat() != text or not 2000 <= day.year <= 2099:
        raise ValueError(f"not a date YYYY-MM-DD between 2000 and 2099: {_shown(text)}")
    return day


def _moment(text: str) -> datetime:
    day, separator, clock = text.partition("T")
    hour, colon, minute = clock.partition(":")
    if not (separator and colon and hour in _HOURS and minute in ("00", "30")):
        raise ValueError(f"not a time YYYY-MM-DDTHH:MM on the full or half hour: {_shown(text)}")
    return datetime.combine(_day(day), time(int(hour), int(minute)))


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M")


def _today() -> str:
    return date.today().isoformat()


def _period(first_day: str, last_day: str) -> tuple[str, str]:
    if _day(first_day) > _day(last_day):
        raise ValueError("the first day is after the last day")
    return first_day, last_day


def _last_day_of_months(first: date, months: int) -> date:
    years, month = divmod(first.month - 1 + months, 12)
    year = first.year + years
    end = date(year, month + 1, min(first.day, monthrange(year, month + 1)[1]))
    return end - timedelta(days=1)


def _within(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ValueError(f"{name} must be between {least} and {most}")


def _text(name: str, value: str, most: int = 500) -> str:
    if not value.strip() or "\0" in value or len(value) > most:
        raise ValueError(f"{name} must be a text of 1 to {most} characters")
    return value


def _distinct(lines: list[PartLine]) -> None:
    if len({line["sku"] for line in lines}) < len(lines):
        raise ValueError("give each part only once")
    for line in lines:
        _within("quantity", line["quantity"], 1, 1000)


def _part(db: sqlite3.Connection, sku: str) -> dict:
    return _one(db, "part", "SELECT * FROM parts WHERE sku = ?", sku)


def _depot_id(db: sqlite3.Connection, code: str) -> int:
    return _one(db, "depot", "SELECT id FROM depots WHERE code = ?", code)["id"]


def _technician(db: sqlite3.Connection, technician_id: int) -> dict:
    sql = "SELECT id, full_name, depot_id, is_active FROM employees WHERE id = ? AND role = 'technician'"
    technician = _one(db, "technician", sql, technician_id)
    if not technician["is_active"]:
        raise RuntimeError(f"{technician['full_name']} has left the company")
    return technician


def _van(db: sqlite3.Connection, technician_id: int) -> dict:
    technician = _technician(db, technician_id)
    van = _first(db, "SELECT id, plate, depot_id FROM vans WHERE technician_id = ?", technician_id)
    if van is None:
        raise RuntimeError(f"{technician['full_name']} has no van")
    return van


def _contract_on(db: sqlite3.Connection, site_id: int, day: str) -> dict | None:
    return _first(
        db,
        "SELECT c.id, s.code AS sla_code, s.response_days, s.labour_discount_percent, s.includes_emergencies"
        " FROM contracts c JOIN sla_levels s ON s.id = c.sla_id"
        " WHERE c.site_id = ? AND c.cancelled_on IS NULL AND ? BETWEEN c.starts_on AND c.ends_on ORDER BY c.id LIMIT 1",
        site_id,
        day,
    )


def _contracts(db: sqlite3.Connection, where: str, *parameters: object) -> list[dict]:
    return _all(
        db,
        "SELECT c.id, c.site_id, t.label AS site, t.customer_id, k.name AS customer, s.code AS sla_code, c.starts_on,"
        " c.ends_on, c.cancelled_on FROM contracts c JOIN sites t ON t.id = c.site_id"
        " JOIN customers k ON k.id = t.customer_id JOIN sla_levels s ON s.id = c.sla_id"
        f" WHERE {where} ORDER BY c.ends_on, c.id LIMIT 100",
        *parameters,
    )


def _job(db: sqlite3.Connection, work_order_id: int) -> dict:
    """What decides who may do a work order and how long it takes."""
    job = _one(
        db,
        "work order",
        "SELECT w.id, w.status, w.unit_id, t.id AS site_id, t.depot_id, t.customer_id, j.duration_min,"
        " m.skill_id AS model_skill, j.skill_id AS job_skill FROM work_orders w JOIN units u ON u.id = w.unit_id"
        " JOIN equipment_models m ON m.id = u.model_id JOIN sites t ON t.id = u.site_id"
        " JOIN job_types j ON j.id = w.job_type_id WHERE w.id = ?",
        work_order_id,
    )
    job["skills"] = sorted({job["model_skill"], job["job_skill"]} - {None})
    return job


def _bookable_job(db: sqlite3.Connection, work_order_id: int) -> dict:
    job = _job(db, work_order_id)
    if job["status"] not in ("open", "scheduled"):
        raise RuntimeError(f"work order {work_order_id} is {job['status']}")
    return job


def _bookable_day(day: date) -> None:
    if not date.today() <= day <= date.today() + timedelta(days=_BOOKABLE_DAYS):
        raise ValueError(f"visits are planned from today to {_BOOKABLE_DAYS} days ahead")


def _holds(db: sqlite3.Connection, technician_id: int, skill_id: int, day: str) -> bool:
    sql = "SELECT 1 FROM certifications WHERE technician_id = ? AND skill_id = ? AND ? BETWEEN issued_on AND expires_on"
    return _first(db, sql, technician_id, skill_id, day) is not None


def _obstacle(db: sqlite3.Connection, job: dict, technician: dict, starts_at: datetime) -> str | None:
    """Why the technician cannot do the job then; a visit already booked for the same work order is no obstacle."""
    start, end = _stamp(starts_at), _stamp(starts_at + timedelta(minutes=job["duration_min"]))
    day, who = start[:10], technician["full_name"]
    if starts_at <= datetime.now():
        return f"{start} is in the past"
    if technician["depot_id"] != job["depot_id"]:
        return f"{who} belongs to another depot than the site"
    for skill_id in job["skills"]:
        if not _holds(db, technician["id"], skill_id, day):
            skill = _one(db, "skill", "SELECT code FROM skills WHERE id = ?", skill_id)
            return f"{who} has no {skill['code']} certificate valid on {day}"
    sql = "SELECT starts, ends FROM working_shifts WHERE technician_id = ? AND weekday = ?"
    shift = _first(db, sql, technician["id"], starts_at.weekday())
    if shift is None or end[:10] != day or start[11:] < shift["starts"] or end[11:] > shift["ends"]:
        return f"{who} is not on shift from {start} to {end}"
    sql = "SELECT kind FROM absences WHERE technician_id = ? AND ? BETWEEN first_day AND last_day ORDER BY id LIMIT 1"
    if absence := _first(db, sql, technician["id"], day):
        return f"{who} is absent on {day} ({absence['kind']})"
    busy = _first(
        db,
        "SELECT id FROM visits WHERE technician_id = ? AND status = 'booked' AND starts_at < ? AND ends_at > ?"
        " AND work_order_id <> ? ORDER BY starts_at LIMIT 1",
        technician["id"],
        end,
        start,
        job["id"],
    )
    return f"{who} has visit {busy['id']} at that time" if busy else None


def _colleagues(db: sqlite3.Connection, depot_id: int) -> list[dict]:
    return _all(
        db,
        "SELECT id, full_name, depot_id FROM employees WHERE role = 'technician' AND is_active AND depot_id = ?"
        " ORDER BY id",
        depot_id,
    )


def _visits(db: sqlite3.Connection, where: str, *parameters: object) -> list[dict]:
    return _all(
        db,
        "SELECT v.id, v.work_order_id, v.technician_id, e.full_name AS technician, v.starts_at, v.ends_at, v.status,"
        " j.code AS job_type, m.code AS model_code, k.name AS customer, t.label AS site, d.code AS depot_code"
        " FROM visits v JOIN employees e ON e.id = v.technician_id JOIN work_orders w ON w.id = v.work_order_id"
        " JOIN job_types j ON j.id = w.job_type_id JOIN units u ON u.id = w.unit_id"
        " JOIN equipment_models m ON m.id = u.model_id JOIN sites t ON t.id = u.site_id"
        " JOIN depots d ON d.id = t.depot_id JOIN customers k ON k.id = t.customer_id"
        f" WHERE {where} ORDER BY v.starts_at, v.id LIMIT 100",
        *parameters,
    )


def _visit(db: sqlite3.Connection, visit_id: int, status: str | None = None) -> dict:
    visit = _one(db, "visit", "SELECT * FROM visits WHERE id = ?", visit_id)
    if status is not None and visit["status"] != status:
        raise RuntimeError(f"visit {visit_id} is {visit['status']}")
    return visit


def _work_orders(db: sqlite3.Connection, where: str, *parameters: object) -> list[dict]:
    return _all(
        db,
        "SELECT w.id, w.status, w.priority, j.code AS job_type, w.description, w.due_on, w.unit_id, u.serial_no,"
        " m.code AS model_code, t.customer_id, k.name AS customer, t.id AS site_id, t.label AS site,"
        " d.code AS depot_code FROM work_orders w JOIN job_types j ON j.id = w.job_type_id"
        " JOIN units u ON u.id = w.unit_id JOIN equipment_models m ON m.id = u.model_id"
        " JOIN sites t ON t.id = u.site_id JOIN depots d ON d.id = t.depot_id JOIN customers k ON k.id = t.customer_id"
        f" WHERE {where} ORDER BY w.due_on, w.id LIMIT 100",
        *parameters,
    )


def _unit(db: sqlite3.Connection, unit_id: int) -> dict:
    return _one(
        db,
        "unit",
        "SELECT u.id, u.serial_no, u.status, u.site_id, t.customer_id, k.status AS customer_status FROM units u"
        " JOIN sites t ON t.id = u.site_id JOIN customers k ON k.id = t.customer_id WHERE u.id = ?",
        unit_id,
    )


def _due_by_contract(db: sqlite3.Connection, site_id: int) -> str:
    contract = _contract_on(db, site_id, _today())
    return (date.today() + timedelta(days=contract["response_days"] if contract else 10)).isoformat()


def _invoice(db: sqlite3.Connection, invoice_id: int) -> dict:
    return _one(
        db,
        "invoice",
        "SELECT i.id, i.customer_id, k.name AS customer, i.work_order_id, i.status, i.issued_on, i.due_on,"
        " b.total_cents, b.paid_cents, b.credited_cents, b.open_cents FROM invoices i"
        " JOIN customers k ON k.id = i.customer_id JOIN invoice_balances b ON b.invoice_id = i.id WHERE i.id = ?",
        invoice_id,
    )


def _close_if_settled(db: sqlite3.Connection, invoice_id: int) -> None:
    if _invoice(db, invoice_id)["open_cents"] == 0:
        _execute(db, "UPDATE invoices SET status = 'paid' WHERE id = ?", invoice_id)


def _purchase_orders(db: sqlite3.Connection, where: str, *parameters: object) -> list[dict]:
    orders = _all(
        db,
        "SELECT o.id, o.supplier_id, s.name AS supplier, d.code AS depot_code, o.status, o.ordered_on, o.expected_on,"
        " o.received_on FROM purchase_orders o JOIN suppliers s ON s.id = o.supplier_id"
        f" JOIN depots d ON d.id = o.depot_id WHERE {where} ORDER BY o.id DESC LIMIT 50",
        *parameters,
    )
    for order in orders:
        order["lines"] = _all(
            db,
            "SELECT p.sku, p.name, l.quantity, l.cost_cents FROM purchase_order_lines l"
            " JOIN parts p ON p.id = l.part_id WHERE l.purchase_order_id = ? ORDER BY p.sku",
            order["id"],
        )
        order["total_cents"] = sum(line["quantity"] * line["cost_cents"] for line in order["lines"])
    return orders


def _quotes(db: sqlite3.Connection, where: str, *parameters: object) -> list[dict]:
    quotes = _all(
        db,
        "SELECT q.id, q.title, q.status, q.valid_until, q.decided_on, j.code AS job_type, q.unit_id, t.customer_id,"
        " k.name AS customer, w.id AS work_order_id FROM quotes q JOIN job_types j ON j.id = q.job_type_id"
        " JOIN units u ON u.id = q.unit_id JOIN sites t ON t.id = u.site_id JOIN customers k ON k.id = t.customer_id"
        f" LEFT JOIN work_orders w ON w.quote_id = q.id WHERE {where} ORDER BY q.id LIMIT 50",
        *parameters,
    )
    for quote in quotes:
        quote["lines"] = _all(
            db,
            "SELECT description, quantity, unit_price_cents FROM quote_lines WHERE quote_id = ? ORDER BY id",
            quote["id"],
        )
        quote["total_cents"] = sum(line["quantity"] * line["unit_price_cents"] for line in quote["lines"])
    return quotes


# Customers, sites and units


def search_customers(db: sqlite3.Connection, query: str = "", limit: int = 10) -> list[dict]:
    """Find customers whose name, phone number or email address contains the query.

    Args:
        query: Part of the name, phone number or email address; empty matches every customer.
        limit: Most customers to return, 1 to 50.
    """
    _within("limit", limit, 1, 50)
    return _all(
        db,
        "SELECT id, name, kind, phone, email, city, status FROM customers WHERE instr(lower(name), lower(?1))"
        " OR instr(phone, ?1) OR instr(lower(coalesce(email, '')), lower(?1)) OR ?1 = '' ORDER BY name, id LIMIT ?2",
        query,
        limit,
    )


def get_customer(db: sqlite3.Connection, customer_id: int) -> dict:
    """Show a customer with contact data, sites and the amount still open on invoices.

    Args:
        customer_id: The customer's id.
    """
    customer = _one(db, "customer", "SELECT * FROM customers WHERE id = ?", customer_id)
    customer["sites"] = _all(
        db,
        "SELECT t.id, t.label, t.address, t.city, d.code AS depot_code FROM sites t JOIN depots d ON d.id = t.depot_id"
        " WHERE t.customer_id = ? ORDER BY t.id",
        customer_id,
    )
    open_invoices = _all(
        db,
        "SELECT i.id, i.due_on, b.open_cents FROM invoices i JOIN invoice_balances b ON b.invoice_id = i.id"
        " WHERE i.customer_id = ? AND i.status = 'open' ORDER BY i.due_on, i.id",
        customer_id,
    )
    customer["open_cents"] = sum(invoice["open_cents"] for invoice in open_invoices)
    customer["overdue_invoice_ids"] = [invoice["id"] for invoice in open_invoices if invoice["due_on"] < _today()]
    return customer


def update_customer_contact(
    db: sqlite3.Connection,
    customer_id: int,
    phone: str | None = None,
    email: str | None = None,
    billing_address: str | None = None,
    city: str | None = None,
) -> dict:
    """Change a customer's contact data; what is left out stays as it is.

    Args:
        customer_id: The customer's id.
        phone: New phone number.
        email: New email address, unique among customers.
        billing_address: New street and house number.
        city: New city of the billing address.
    """
    get_customer(db, customer_id)
    fields = {"phone": phone, "email": email, "billing_address": billing_address, "city": city}
    for name, value in fields.items():
        if value is not None:
            _text(name, value, 200)
    if email is not None and "@" not in email:
        raise ValueError("email must contain @")
    _execute(
        db,
        "UPDATE customers SET phone = coalesce(?, phone), email = coalesce(?, email),"
        " billing_address = coalesce(?, billing_address), city = coalesce(?, city) WHERE id = ?",
        *fields.values(),
        customer_id,
    )
    return get_customer(db, customer_id)


def get_site(db: sqlite3.Connection, site_id: int) -> dict:
    """Show a site with its installed units and the contract in force today, if there is one.

    Args:
        site_id: The site's id.
    """
    site = _one(
        db,
        "site",
        "SELECT t.id, t.customer_id, k.name AS customer, t.label, t.address, t.city, d.code AS depot_code,"
        " t.access_note FROM sites t JOIN customers k ON k.id = t.customer_id JOIN depots d ON d.id = t.depot_id"
        " WHERE t.id = ?",
        site_id,
    )
    site["units"] = _all(
        db,
        "SELECT u.id, u.serial_no, m.code AS model_code, m.name AS model, m.kind, u.status FROM units u"
        " JOIN equipment_models m ON m.id = u.model_id WHERE u.site_id = ? ORDER BY u.id LIMIT 100",
        site_id,
    )
    site["contract"] = _contract_on(db, site_id, _today())
    return site


def search_units(
    db: sqlite3.Connection,
    serial_no: str = "",
    customer_id: int | None = None,
    kind: Literal["heat_pump", "ventilation"] | None = None,
    limit: int = 20,
) -> list[dict]:
    """Find installed units by serial number, customer or kind.

    Args:
        serial_no: Part of the serial number; empty matches every unit.
        customer_id: Only units of this customer.
        kind: Only units of this kind.
        limit: Most units to return, 1 to 50.
    """
    _within("limit", limit, 1, 50)
    return _all(
        db,
        "SELECT u.id, u.serial_no, m.code AS model_code, m.kind, s.code AS skill_code, t.id AS site_id,"
        " t.label AS site, t.customer_id, k.name AS customer, u.installed_on, u.last_serviced_on, u.status"
        " FROM units u JOIN equipment_models m ON m.id = u.model_id JOIN skills s ON s.id = m.skill_id"
        " JOIN sites t ON t.id = u.site_id JOIN customers k ON k.id = t.customer_id"
        " WHERE (?1 = '' OR instr(lower(u.serial_no), lower(?1))) AND (?2 IS NULL OR t.customer_id = ?2)"
        " AND (?3 IS NULL OR m.kind = ?3) ORDER BY u.id LIMIT ?4",
        serial_no,
        customer_id,
        kind,
        limit,
    )


def register_unit(db: sqlite3.Connection, site_id: int, model_code: Model, serial_no: str, installed_on: str) -> dict:
    """Register a newly installed unit at a site.

    Args:
        site_id: The site's id.
        model_code: Code of the equipment model.
        serial_no: Serial number, unique among units.
        installed_on: Day of installation, YYYY-MM-DD, not in the future.
    """
    get_site(db, site_id)
    model = _one(db, "equipment model", "SELECT id FROM equipment_models WHERE code = ?", model_code)
    if _day(installed_on) > date.today():
        raise ValueError("installed_on is in the future")
    cursor = _execute(
        db,
        "INSERT INTO units (site_id, model_id, serial_no, installed_on) VALUES (?, ?, ?, ?)",
        site_id,
        model["id"],
        _text("serial_no", serial_no, 40),
        installed_on,
    )
    return _unit(db, cursor.lastrowid)


def list_units_due_for_service(
    db: sqlite3.Connection,
    due_by: str,
    customer_id: int | None = None,
    depot_code: Depot | None = None,
    limit: int = 20,
) -> list[dict]:
    """List active units whose next planned maintenance is due on or before a day, the longest due first.

    The next maintenance is due one service interval after the last one or, if there was none, after installation.

    Args:
        due_by: Last due date to include, YYYY-MM-DD.
        customer_id: Only units of this customer.
        depot_code: Only units served from this depot.
        limit: Most units to return, 1 to 50.
    """
    _day(due_by)
    _within("limit", limit, 1, 50)
    return _all(
        db,
        "SELECT u.id, u.serial_no, m.code AS model_code, t.id AS site_id, t.label AS site, k.name AS customer,"
        " u.last_serviced_on, date(coalesce(u.last_serviced_on, u.installed_on),"
        " '+' || m.service_interval_months || ' months') AS service_due_on FROM units u"
        " JOIN equipment_models m ON m.id = u.model_id JOIN sites t ON t.id = u.site_id"
        " JOIN depots d ON d.id = t.depot_id JOIN customers k ON k.id = t.customer_id"
        " WHERE u.status = 'active' AND service_due_on <= ?1 AND (?2 IS NULL OR t.customer_id = ?2)"
        " AND (?3 IS NULL OR d.code = ?3) ORDER BY service_due_on, u.id LIMIT ?4",
        due_by,
        customer_id,
        depot_code,
        limit,
    )


def list_reference_data(
    db: sqlite3.Connection,
    section: Literal["depots", "skills", "equipment_models", "job_types", "sla_levels", "suppliers"],
) -> list[dict]:
    """List one of the office's short reference tables.

    Args:
        section: Which table to list.
    """
    queries = {
        "depots": "SELECT id, code, name, city FROM depots ORDER BY id",
        "skills": "SELECT id, code, name FROM skills ORDER BY id",
        "equipment_models": "SELECT m.id, m.code, m.manufacturer, m.name, m.kind, s.code AS skill_code,"
        " m.service_interval_months FROM equipment_models m JOIN skills s ON s.id = m.skill_id ORDER BY m.id",
        "job_types": "SELECT j.id, j.code, j.name, j.duration_min, j.labour_cents, s.code AS skill_code"
        " FROM job_types j LEFT JOIN skills s ON s.id = j.skill_id ORDER BY j.id",
        "sla_levels": "SELECT * FROM sla_levels ORDER BY id",
        "suppliers": "SELECT id, name, email, lead_time_days FROM suppliers ORDER BY id",
    }
    return _all(db, queries[section])


# Contracts


def list_contracts(
    db: sqlite3.Connection,
    customer_id: int | None = None,
    in_force_on: str | None = None,
    ending_by: str | None = None,
) -> list[dict]:
    """List maintenance contracts, those that end first at the top.

    Args:
        customer_id: Only contracts of this customer.
        in_force_on: Only contracts in force on this day, YYYY-MM-DD.
        ending_by: Only contracts that end on or before this day, YYYY-MM-DD.
    """
    for day in (in_force_on, ending_by):
        if day is not None:
            _day(day)
    return _contracts(
        db,
        "(?1 IS NULL OR t.customer_id = ?1) AND (?3 IS NULL OR c.ends_on <= ?3)"
        " AND (?2 IS NULL OR (c.cancelled_on IS NULL AND ?2 BETWEEN c.starts_on AND c.ends_on))",
        customer_id,
        in_force_on,
        ending_by,
    )


def create_contract(db: sqlite3.Connection, site_id: int, sla_code: Sla, starts_on: str, months: int = 12) -> dict:
    """Conclude a maintenance contract for a site that has none in the same period.

    Args:
        site_id: The site's id.
        sla_code: Service level.
        starts_on: First day, YYYY-MM-DD, today or later.
        months: Term in months, 1 to 60.
    """
    get_site(db, site_id)
    _within("months", months, 1, 60)
    if _day(starts_on) < date.today():
        raise ValueError("starts_on is in the past")
    ends_on = _last_day_of_months(_day(starts_on), months).isoformat()
    sql = (
        "SELECT id FROM contracts WHERE site_id = ? AND cancelled_on IS NULL AND starts_on <= ? AND ends_on >= ?"
        " ORDER BY id LIMIT 1"
    )
    if other := _first(db, sql, site_id, ends_on, starts_on):
        raise RuntimeError(f"contract {other['id']} covers part of this period")
    sla = _one(db, "service level", "SELECT id FROM sla_levels WHERE code = ?", sla_code)
    cursor = _execute(
        db,
        "INSERT INTO contracts (site_id, sla_id, starts_on, ends_on) VALUES (?, ?, ?, ?)",
        site_id,
        sla["id"],
        starts_on,
        ends_on,
    )
    return _contracts(db, "c.id = ?", cursor.lastrowid)[0]


def renew_contract(db: sqlite3.Connection, contract_id: int, months: int = 12) -> dict:
    """Extend a contract in force that ends within 90 days.

    Args:
        contract_id: The contract's id.
        months: Months to add to the term, 1 to 60.
    """
    _within("months", months, 1, 60)
    contract = _one(db, "contract", "SELECT * FROM contracts WHERE id = ?", contract_id)
    ends_on = _day(contract["ends_on"])
    if contract["cancelled_on"] is not None or not contract["starts_on"] <= _today() <= contract["ends_on"]:
        raise RuntimeError(f"contract {contract_id} is not in force")
    if ends_on > date.today() + timedelta(days=90):
        raise RuntimeError(f"contract {contract_id} ends only on {contract['ends_on']}")
    new_end = _last_day_of_months(ends_on + timedelta(days=1), months).isoformat()
    sql = (
        "SELECT id FROM contracts WHERE site_id = ? AND cancelled_on IS NULL AND starts_on > ? AND starts_on <= ?"
        " ORDER BY id LIMIT 1"
    )
    if other := _first(db, sql, contract["site_id"], contract["ends_on"], new_end):
        raise RuntimeError(f"contract {other['id']} follows already")
    _execute(db, "UPDATE contracts SET ends_on = ? WHERE id = ?", new_end, contract_id)
    return _contracts(db, "c.id = ?", contract_id)[0]


# Technicians


def list_technicians(
    db: sqlite3.Connection,
    depot_code: Depot | None = None,
    skill_code: Skill | None = None,
    valid_on: str | None = None,
) -> list[dict]:
    """List active technicians, with a skill only those whose certificate is valid on a day.

    Args:
        depot_code: Only technicians of this depot.
        skill_code: Only technicians with a valid certificate for this skill.
        valid_on: The day on which the certificate must be valid, YYYY-MM-DD; without it today.
    """
    day = _today() if valid_on is None else _day(valid_on).isoformat()
    return _all(
        db,
        "SELECT e.id, e.full_name, d.code AS depot_code, e.phone FROM employees e JOIN depots d ON d.id = e.depot_id"
        " WHERE e.role = 'technician' AND e.is_active AND (?1 IS NULL OR d.code = ?1) AND (?2 IS NULL OR EXISTS"
        " (SELECT 1 FROM certifications c JOIN skills s ON s.id = c.skill_id WHERE c.technician_id = e.id"
        " AND s.code = ?2 AND ?3 BETWEEN c.issued_on AND c.expires_on)) ORDER BY e.id",
        depot_code,
        skill_code,
        day,
    )


def get_technician(db: sqlite3.Connection, technician_id: int) -> dict:
    """Show a technician with certificates, weekly shifts, present and future absences and the stock of the van.

    Args:
        technician_id: The technician's employee id.
    """
    technician = _one(
        db,
        "technician",
        "SELECT e.id, e.full_name, e.phone, e.email, e.is_active, d.code AS depot_code FROM employees e"
        " JOIN depots d ON d.id = e.depot_id WHERE e.id = ? AND e.role = 'technician'",
        technician_id,
    )
    technician["certificates"] = _all(
        db,
        "SELECT s.code AS skill_code, c.certificate_no, c.issued_on, c.expires_on FROM certifications c"
        " JOIN skills s ON s.id = c.skill_id WHERE c.technician_id = ? ORDER BY s.code, c.expires_on",
        technician_id,
    )
    technician["shifts"] = _all(
        db,
        "SELECT weekday, starts, ends FROM working_shifts WHERE technician_id = ? ORDER BY weekday",
        technician_id,
    )
    technician["absences"] = _all(
        db,
        "SELECT id, kind, first_day, last_day, note FROM absences WHERE technician_id = ? AND last_day >= ?"
        " ORDER BY first_day LIMIT 20",
        technician_id,
        _today(),
    )
    technician["van"] = _first(db, "SELECT id, plate FROM vans WHERE technician_id = ?", technician_id)
    technician["van_stock"] = _all(
        db,
        "SELECT p.sku, p.name, s.quantity FROM van_stock s JOIN vans v ON v.id = s.van_id"
        " JOIN parts p ON p.id = s.part_id WHERE v.technician_id = ? ORDER BY p.sku",
        technician_id,
    )
    return technician


def record_absence(
    db: sqlite3.Connection,
    technician_id: int,
    first_day: str,
    last_day: str,
    kind: Literal["vacation", "sick", "training"],
    note: str = "",
) -> dict:
    """Record an absence of a technician; the answer lists visits booked in that time, which stay booked for now.

    Args:
        technician_id: The technician's employee id.
        first_day: First day of the absence, YYYY-MM-DD, today or later.
        last_day: Last day of the absence, YYYY-MM-DD.
        kind: Kind of absence.
        note: Free note.
    """
    _technician(db, technician_id)
    _period(first_day, last_day)
    if first_day < _today():
        raise ValueError("first_day is in the past")
    if note:
        _text("note", note)
    sql = "SELECT id FROM absences WHERE technician_id = ? AND first_day <= ? AND last_day >= ? ORDER BY id LIMIT 1"
    if other := _first(db, sql, technician_id, last_day, first_day):
        raise RuntimeError(f"absence {other['id']} covers part of this time")
    cursor = _execute(
        db,
        "INSERT INTO absences (technician_id, kind, first_day, last_day, note) VALUES (?, ?, ?, ?, ?)",
        technician_id,
        kind,
        first_day,
        last_day,
        note,
    )
    affected = _visits(
        db,
        "v.technician_id = ? AND v.status = 'booked' AND substr(v.starts_at, 1, 10) BETWEEN ? AND ?",
        technician_id,
        first_day,
        last_day,
    )
    return {"id": cursor.lastrowid, "technician_id": technician_id, "affected_visits": affected}


def find_available_technicians(db: sqlite3.Connection, work_order_id: int, starts_at: str) -> list[dict]:
    """List the technicians who are qualified, on shift and free to do a work order at a given time.

    Args:
        work_order_id: The work order's id.
        starts_at: Start of the visit on a full or half hour, YYYY-MM-DDTHH:MM.
    """
    start = _moment(starts_at)
    _bookable_day(start.date())
    job = _bookable_job(db, work_order_id)
    return [
        {"technician_id": technician["id"], "technician": technician["full_name"]}
        for technician in _colleagues(db, job["depot_id"])
        if _obstacle(db, job, technician, start) is None
    ]


def find_free_slots(
    db: sqlite3.Connection,
    work_order_id: int,
    day: str,
    not_before: str = "00:00",
    technician_id: int | None = None,
    limit: int = 10,
) -> list[dict]:
    """List possible visits for a work order on one day, the earliest first.

    Args:
        work_order_id: The work order's id.
        day: The day, YYYY-MM-DD.
        not_before: Earliest start, HH:MM on a full or half hour.
        technician_id: Only this technician; without it everyone who is qualified.
        limit: Most slots to return, 1 to 50.
    """
    _within("limit", limit, 1, 50)
    start = _moment(f"{day}T{not_before}")
    _bookable_day(start.date())
    job = _bookable_job(db, work_order_id)
    candidates = _colleagues(db, job["depot_id"]) if technician_id is None else [_technician(db, technician_id)]
    slots = []
    while start.date().isoformat() == day and len(slots) < limit:
        slots += [
            {"starts_at": _stamp(start), "technician_id": technician["id"], "technician": technician["full_name"]}
            for technician in candidates
            if _obstacle(db, job, technician, start) is None
        ]
        start += timedelta(minutes=30)
    return slots[:limit]


# Work orders and visits


def search_work_orders(
    db: sqlite3.Connection,
    status: Literal["open", "scheduled", "completed", "cancelled"] | None = None,
    customer_id: int | None = None,
    depot_code: Depot | None = None,
    priority: Priority | None = None,
    due_by: str | None = None,
    limit: int = 20,
) -> list[dict]:
    """List work orders, the earliest due first.

    Args:
        status: Only work orders in this status.
        customer_id: Only work orders of this customer.
        depot_code: Only work orders at sites of this depot.
        priority: Only work orders of this priority.
        due_by: Only work orders due on or before this day, YYYY-MM-DD.
        limit: Most work orders to return, 1 to 50.
    """
    _within("limit", limit, 1, 50)
    if due_by is not None:
        _day(due_by)
    found = _work_orders(
        db,
        "(?1 IS NULL OR w.status = ?1) AND (?2 IS NULL OR t.customer_id = ?2) AND (?3 IS NULL OR d.code = ?3)"
        " AND (?4 IS NULL OR w.priority = ?4) AND (?5 IS NULL OR w.due_on <= ?5)",
        status,
        customer_id,
        depot_code,
        priority,
        due_by,
    )
    return found[:limit]


def get_work_order(db: sqlite3.Connection, work_order_id: int) -> dict:
    """Show a work order with the skills it needs, its visits and its invoice.

    Args:
        work_order_id: The work order's id.
    """
    job = _job(db, work_order_id)
    order = _work_orders(db, "w.id = ?", work_order_id)[0]
    skills = [_one(db, "skill", "SELECT code FROM skills WHERE id = ?", skill_id)["code"] for skill_id in job["skills"]]
    visits = _all(
        db,
        "SELECT id, technician_id, starts_at, ends_at, status, cancellation_reason, report FROM visits"
        " WHERE work_order_id = ? ORDER BY starts_at, id LIMIT 50",
        work_order_id,
    )
    sql = "SELECT id FROM invoices WHERE work_order_id = ? AND status <> 'void' ORDER BY id LIMIT 1"
    invoice = _first(db, sql, work_order_id)
    order |= {"duration_min": job["duration_min"], "required_skills": skills, "visits": visits}
    return order | {"invoice": _invoice(db, invoice["id"]) if invoice else None}


def create_work_order(
    db: sqlite3.Connection, unit_id: int, job_type: JobType, description: str, priority: Priority = "normal"
) -> dict:
    """Open a work order for a unit; the contract of the site in force today sets the due date.

    Args:
        unit_id: The unit's id.
        job_type: Kind of work.
        description: What is wrong or wanted.
        priority: Priority; emergency needs a contract in force that includes emergencies.
    """
    unit = _unit(db, unit_id)
    _text("description", description)
    if unit["status"] != "active":
        raise RuntimeError(f"unit {unit_id} is {unit['status']}")
    if unit["customer_status"] != "active":
        raise PermissionError(f"no new work for this customer, who is {unit['customer_status']}")
    contract = _contract_on(db, unit["site_id"], _today())
    if priority == "emergency" and not (contract and contract["includes_emergencies"]):
        raise PermissionError("the site has no contract in force that includes emergencies")
    type_id = _one(db, "job type", "SELECT id FROM job_types WHERE code = ?", job_type)["id"]
    sql = (
        "SELECT id FROM work_orders WHERE unit_id = ? AND job_type_id = ? AND status IN ('open', 'scheduled')"
        " ORDER BY id LIMIT 1"
    )
    if other := _first(db, sql, unit_id, type_id):
        raise RuntimeError(f"work order {other['id']} for the same work is not done yet")
    due_on = _today() if priority == "emergency" else _due_by_contract(db, unit["site_id"])
    cursor = _execute(
        db,
        "INSERT INTO work_orders (unit_id, job_type_id, priority, description, due_on) VALUES (?, ?, ?, ?, ?)",
        unit_id,
        type_id,
        priority,
        description,
        due_on,
    )
    return get_work_order(db, cursor.lastrowid)


def list_visits(
    db: sqlite3.Connection,
    first_day: str,
    last_day: str,
    technician_id: int | None = None,
    depot_code: Depot | None = None,
    status: Literal["booked", "completed", "cancelled"] | None = None,
    limit: int = 30,
) -> list[dict]:
    """List visits that start in a period, in order of time.

    Args:
        first_day: First day, YYYY-MM-DD.
        last_day: Last day, YYYY-MM-DD.
        technician_id: Only visits of this technician.
        depot_code: Only visits to sites of this depot.
        status: Only visits in this status.
        limit: Most visits to return, 1 to 100.
    """
    _within("limit", limit, 1, 100)
    _period(first_day, last_day)
    found = _visits(
        db,
        "substr(v.starts_at, 1, 10) BETWEEN ?1 AND ?2 AND (?3 IS NULL OR v.technician_id = ?3)"
        " AND (?4 IS NULL OR d.code = ?4) AND (?5 IS NULL OR v.status = ?5)",
        first_day,
        last_day,
        technician_id,
        depot_code,
        status,
    )
    return found[:limit]


def book_visit(db: sqlite3.Connection, work_order_id: int, technician_id: int, starts_at: str) -> dict:
    """Book a visit for an open work order with a technician who is qualified, on shift and free.

    Args:
        work_order_id: The work order's id.
        technician_id: The technician's employee id.
        starts_at: Start on a full or half hour, YYYY-MM-DDTHH:MM.
    """
    start = _moment(starts_at)
    _bookable_day(start.date())
    job = _bookable_job(db, work_order_id)
    if job["status"] != "open":
        raise RuntimeError(f"work order {work_order_id} already has a visit booked")
    if reason := _obstacle(db, job, _technician(db, technician_id), start):
        raise RuntimeError(reason)
    cursor = _execute(
        db,
        "INSERT INTO visits (work_order_id, technician_id, starts_at, ends_at) VALUES (?, ?, ?, ?)",
        work_order_id,
        technician_id,
        starts_at,
        _stamp(start + timedelta(minutes=job["duration_min"])),
    )
    _execute(db, "UPDATE work_orders SET status = 'scheduled' WHERE id = ?", work_order_id)
    return _visits(db, "v.id = ?", cursor.lastrowid)[0]


def reschedule_visit(
    db: sqlite3.Connection, visit_id: int, starts_at: str | None = None, technician_id: int | None = None
) -> dict:
    """Move a booked visit to another time, another technician or both.

    Args:
        visit_id: The visit's id.
        starts_at: New start on a full or half hour, YYYY-MM-DDTHH:MM; without it the time stays.
        technician_id: New technician's employee id; without it the technician stays.
    """
    visit = _visit(db, visit_id, "booked")
    start = _moment(visit["starts_at"] if starts_at is None else starts_at)
    technician = _technician(db, visit["technician_id"] if technician_id is None else technician_id)
    _bookable_day(start.date())
    job = _bookable_job(db, visit["work_order_id"])
    if reason := _obstacle(db, job, technician, start):
        raise RuntimeError(reason)
    _execute(
        db,
        "UPDATE visits SET technician_id = ?, starts_at = ?, ends_at = ? WHERE id = ?",
        technician["id"],
        _stamp(start),
        _stamp(start + timedelta(minutes=job["duration_min"])),
        visit_id,
    )
    return _visits(db, "v.id = ?", visit_id)[0]


def cancel_visit(db: sqlite3.Connection, visit_id: int, reason: str) -> dict:
    """Cancel a booked visit; its work order is open again.

    Args:
        visit_id: The visit's id.
        reason: Why it is cancelled.
    """
    visit = _visit(db, visit_id, "booked")
    sql = "UPDATE visits SET status = 'cancelled', cancellation_reason = ? WHERE id = ?"
    _execute(db, sql, _text("reason", reason), visit_id)
    _execute(db, "UPDATE work_orders SET status = 'open' WHERE id = ?", visit["work_order_id"])
    return _visit(db, visit_id)


def complete_visit(
    db: sqlite3.Connection,
    visit_id: int,
    report: str,
    parts: list[PartLine] | None = None,
    refrigerant_kg: float = 0.0,
) -> dict:
    """Report a visit that has taken place: parts leave the technician's van and the work order is completed.

    Args:
        visit_id: The visit's id.
        report: What was found and done.
        parts: Parts used from the van, each SKU once.
        refrigerant_kg: Refrigerant added in kilograms, 0 to 50; needs an F-gas certificate.
    """
    visit = _visit(db, visit_id, "booked")
    lines = parts or []
    _text("report", report)
    _distinct(lines)
    _within("refrigerant_kg", refrigerant_kg, 0, 50)
    if visit["ends_at"] > _stamp(datetime.now()):
        raise RuntimeError(f"visit {visit_id} ends only at {visit['ends_at']}")
    fgas = _one(db, "skill", "SELECT id FROM skills WHERE code = ?", "FGAS")["id"]
    if refrigerant_kg > 0 and not _holds(db, visit["technician_id"], fgas, visit["starts_at"][:10]):
        raise PermissionError("only technicians with a valid F-gas certificate may add refrigerant")
    van = _van(db, visit["technician_id"]) if lines else None
    for line in lines:
        _use_part(db, visit_id, van["id"], line)
    _execute(
        db,
        "UPDATE visits SET status = 'completed', report = ?, refrigerant_kg = ? WHERE id = ?",
        report,
        refrigerant_kg,
        visit_id,
    )
    _execute(db, "UPDATE work_orders SET status = 'completed' WHERE id = ?", visit["work_order_id"])
    _execute(
        db,
        "UPDATE units SET last_serviced_on = ? WHERE id = (SELECT unit_id FROM work_orders WHERE id = ?"
        " AND job_type_id = (SELECT id FROM job_types WHERE code = 'SERVICE'))",
        visit["starts_at"][:10],
        visit["work_order_id"],
    )
    return _visit(db, visit_id)


def _use_part(db: sqlite3.Connection, visit_id: int, van_id: int, line: PartLine) -> None:
    part = _part(db, line["sku"])
    taken = _execute(
        db,
        "UPDATE van_stock SET quantity = quantity - ?1 WHERE van_id = ?2 AND part_id = ?3 AND quantity >= ?1",
        line["quantity"],
        van_id,
        part["id"],
    )
    if taken.rowcount == 0:
        raise RuntimeError(f"the van does not hold {line['quantity']} of {part['sku']}")
    sql = "INSERT INTO visit_parts (visit_id, part_id, quantity) VALUES (?, ?, ?)"
    _execute(db, sql, visit_id, part["id"], line["quantity"])


# Parts, stock and purchase orders


def search_parts(db: sqlite3.Connection, query: str = "", limit: int = 5) -> list[dict]:
    """Find parts by SKU or name, with prices and where they are in stock.

    Args:
        query: Part of the SKU or name; empty matches every part.
        limit: Most parts to return, 1 to 20.
    """
    _within("limit", limit, 1, 20)
    parts = _all(
        db,
        "SELECT p.id, p.sku, p.name, p.supplier_id, s.name AS supplier, p.price_cents, p.cost_cents FROM parts p"
        " JOIN suppliers s ON s.id = p.supplier_id WHERE ?1 = '' OR instr(lower(p.sku), lower(?1))"
        " OR instr(lower(p.name), lower(?1)) ORDER BY p.sku LIMIT ?2",
        query,
        limit,
    )
    for part in parts:
        part["stock"] = _all(
            db,
            "SELECT d.code AS place, s.quantity FROM depot_stock s JOIN depots d ON d.id = s.depot_id"
            " WHERE s.part_id = ?1 AND s.quantity > 0 UNION ALL SELECT v.plate, s.quantity FROM van_stock s"
            " JOIN vans v ON v.id = s.van_id WHERE s.part_id = ?1 AND s.quantity > 0 ORDER BY 1",
            part.pop("id"),
        )
    return parts


def list_depot_stock(
    db: sqlite3.Connection,
    depot_code: Depot,
    supplier_id: int | None = None,
    only_at_or_below_level: bool = False,
    limit: int = 20,
) -> list[dict]:
    """List what a depot has in stock and the reorder level of each part; open orders are not counted.

    Args:
        depot_code: The depot.
        supplier_id: Only parts of this supplier.
        only_at_or_below_level: Only parts whose stock is at or below the reorder level.
        limit: Most parts to return, 1 to 100.
    """
    _within("limit", limit, 1, 100)
    return _all(
        db,
        "SELECT p.sku, p.name, p.supplier_id, s.quantity, s.reorder_level, p.cost_cents FROM depot_stock s"
        " JOIN depots d ON d.id = s.depot_id JOIN parts p ON p.id = s.part_id WHERE d.code = ?1"
        " AND (?2 IS NULL OR p.supplier_id = ?2) AND (NOT ?3 OR s.quantity <= s.reorder_level) ORDER BY p.sku LIMIT ?4",
        depot_code,
        supplier_id,
        only_at_or_below_level,
        limit,
    )


def load_van(db: sqlite3.Connection, technician_id: int, parts: list[PartLine]) -> dict:
    """Move parts from the depot of a technician's van into the van.

    Args:
        technician_id: The technician's employee id.
        parts: Parts to load, each SKU once.
    """
    van = _van(db, technician_id)
    _distinct(parts)
    if not parts:
        raise ValueError("give at least one part")
    for line in parts:
        _load_part(db, van, line)
    return {"plate": van["plate"], "van_stock": get_technician(db, technician_id)["van_stock"]}


def _load_part(db: sqlite3.Connection, van: dict, line: PartLine) -> None:
    part = _part(db, line["sku"])
    taken = _execute(
        db,
        "UPDATE depot_stock SET quantity = quantity - ?1 WHERE depot_id = ?2 AND part_id = ?3 AND quantity >= ?1",
        line["quantity"],
        van["depot_id"],
        part["id"],
    )
    if taken.rowcount == 0:
        raise RuntimeError(f"the depot does not hold {line['quantity']} of {part['sku']}")
    _execute(
        db,
        "INSERT INTO van_stock (van_id, part_id, quantity) VALUES (?, ?, ?)"
        " ON CONFLICT (van_id, part_id) DO UPDATE SET quantity = quantity + excluded.quantity",
        van["id"],
        part["id"],
        line["quantity"],
    )
    _execute(
        db,
        "INSERT INTO van_loadings (van_id, part_id, quantity, loaded_by) VALUES (?, ?, ?, ?)",
        van["id"],
        part["id"],
        line["quantity"],
        _USER_ID,
    )


def list_purchase_orders(
    db: sqlite3.Connection,
    depot_code: Depot | None = None,
    supplier_id: int | None = None,
    status: Literal["open", "received", "cancelled"] | None = None,
    limit: int = 10,
) -> list[dict]:
    """List purchase orders with their lines, the newest first.

    Args:
        depot_code: Only orders for this depot.
        supplier_id: Only orders from this supplier.
        status: Only orders in this status.
        limit: Most orders to return, 1 to 50.
    """
    _within("limit", limit, 1, 50)
    found = _purchase_orders(
        db,
        "(?1 IS NULL OR d.code = ?1) AND (?2 IS NULL OR o.supplier_id = ?2) AND (?3 IS NULL OR o.status = ?3)",
        depot_code,
        supplier_id,
        status,
    )
    return found[:limit]


def create_purchase_order(db: sqlite3.Connection, supplier_id: int, depot_code: Depot, lines: list[PartLine]) -> dict:
    """Order parts of one supplier for a depot at the current cost.

    Args:
        supplier_id: The supplier's id.
        depot_code: Depot to deliver to.
        lines: Parts to order, each SKU once.
    """
    supplier = _one(db, "supplier", "SELECT * FROM suppliers WHERE id = ?", supplier_id)
    _distinct(lines)
    if not lines:
        raise ValueError("give at least one part")
    cursor = _execute(
        db,
        "INSERT INTO purchase_orders (supplier_id, depot_id, ordered_by, ordered_on, expected_on)"
        " VALUES (?, ?, ?, ?, ?)",
        supplier_id,
        _depot_id(db, depot_code),
        _USER_ID,
        _today(),
        (date.today() + timedelta(days=supplier["lead_time_days"])).isoformat(),
    )
    for line in lines:
        part = _part(db, line["sku"])
        if part["supplier_id"] != supplier_id:
            raise ValueError(f"{supplier['name']} does not supply {part['sku']}")
        _execute(
            db,
            "INSERT INTO purchase_order_lines (purchase_order_id, part_id, quantity, cost_cents) VALUES (?, ?, ?, ?)",
            cursor.lastrowid,
            part["id"],
            line["quantity"],
            part["cost_cents"],
        )
    return _purchase_orders(db, "o.id = ?", cursor.lastrowid)[0]


def receive_purchase_order(db: sqlite3.Connection, purchase_order_id: int) -> dict:
    """Book the complete delivery of an open purchase order into the stock of its depot.

    Args:
        purchase_order_id: The purchase order's id.
    """
    order = _one(db, "purchase order", "SELECT * FROM purchase_orders WHERE id = ?", purchase_order_id)
    if order["status"] != "open":
        raise RuntimeError(f"purchase order {purchase_order_id} is {order['status']}")
    _execute(
        db,
        "INSERT INTO depot_stock (depot_id, part_id, quantity) SELECT ?, part_id, quantity FROM purchase_order_lines"
        " WHERE purchase_order_id = ? ORDER BY part_id"
        " ON CONFLICT (depot_id, part_id) DO UPDATE SET quantity = quantity + excluded.quantity",
        order["depot_id"],
        purchase_order_id,
    )
    sql = "UPDATE purchase_orders SET status = 'received', received_on = ? WHERE id = ?"
    _execute(db, sql, _today(), purchase_order_id)
    return _purchase_orders(db, "o.id = ?", purchase_order_id)[0]


# Quotes, invoices and complaints


def list_quotes(
    db: sqlite3.Connection,
    customer_id: int | None = None,
    status: Literal["draft", "sent", "accepted", "declined"] | None = None,
    limit: int = 10,
) -> list[dict]:
    """List quotes with their lines and totals.

    Args:
        customer_id: Only quotes for this customer.
        status: Only quotes in this status.
        limit: Most quotes to return, 1 to 50.
    """
    _within("limit", limit, 1, 50)
    where = "(?1 IS NULL OR t.customer_id = ?1) AND (?2 IS NULL OR q.status = ?2)"
    return _quotes(db, where, customer_id, status)[:limit]


def decide_quote(db: sqlite3.Connection, quote_id: int, decision: Literal["accepted", "declined"]) -> dict:
    """Record the customer's decision on a sent quote; an accepted one becomes an open work order.

    Args:
        quote_id: The quote's id.
        decision: The customer's decision.
    """
    quote = _one(db, "quote", "SELECT * FROM quotes WHERE id = ?", quote_id)
    if quote["status"] != "sent":
        raise RuntimeError(f"quote {quote_id} is {quote['status']}")
    unit = _unit(db, quote["unit_id"])
    if decision == "accepted":
        if quote["valid_until"] < _today():
            raise RuntimeError(f"quote {quote_id} was valid until {quote['valid_until']}")
        _execute(
            db,
            "INSERT INTO work_orders (unit_id, job_type_id, quote_id, priority, description, due_on)"
            " VALUES (?, ?, ?, 'normal', ?, ?)",
            quote["unit_id"],
            quote["job_type_id"],
            quote_id,
            quote["title"],
            _due_by_contract(db, unit["site_id"]),
        )
    _execute(db, "UPDATE quotes SET status = ?, decided_on = ? WHERE id = ?", decision, _today(), quote_id)
    return _quotes(db, "q.id = ?", quote_id)[0]


def list_invoices(
    db: sqlite3.Connection,
    customer_id: int | None = None,
    status: Literal["open", "paid", "void"] | None = None,
    due_before: str | None = None,
    limit: int = 20,
) -> list[dict]:
    """List invoices with totals and open amounts, the earliest due first.

    Args:
        customer_id: Only invoices of this customer.
        status: Only invoices in this status.
        due_before: Only invoices due before this day, YYYY-MM-DD.
        limit: Most invoices to return, 1 to 50.
    """
    _within("limit", limit, 1, 50)
    if due_before is not None:
        _day(due_before)
    return _all(
        db,
        "SELECT i.id, i.customer_id, k.name AS customer, i.work_order_id, i.status, i.issued_on, i.due_on,"
        " b.total_cents, b.open_cents FROM invoices i JOIN customers k ON k.id = i.customer_id"
        " JOIN invoice_balances b ON b.invoice_id = i.id WHERE (?1 IS NULL OR i.customer_id = ?1)"
        " AND (?2 IS NULL OR i.status = ?2) AND (?3 IS NULL OR i.due_on < ?3) ORDER BY i.due_on, i.id LIMIT ?4",
        customer_id,
        status,
        due_before,
        limit,
    )


def get_invoice(db: sqlite3.Connection, invoice_id: int) -> dict:
    """Show an invoice with its lines, payments and credit notes.

    Args:
        invoice_id: The invoice's id.
    """
    invoice = _invoice(db, invoice_id)
    invoice["lines"] = _all(
        db,
        "SELECT l.description, p.sku, l.quantity, l.unit_price_cents FROM invoice_lines l"
        " LEFT JOIN parts p ON p.id = l.part_id WHERE l.invoice_id = ? ORDER BY l.id",
        invoice_id,
    )
    sql = "SELECT id, amount_cents, method, received_on FROM payments WHERE invoice_id = ? ORDER BY id LIMIT 50"
    invoice["payments"] = _all(db, sql, invoice_id)
    sql = "SELECT id, complaint_id, amount_cents, issued_on FROM credit_notes WHERE invoice_id = ? ORDER BY id"
    invoice["credit_notes"] = _all(db, sql, invoice_id)
    return invoice


def create_invoice(db: sqlite3.Connection, work_order_id: int) -> dict:
    """Invoice a completed work order: its quote if it has one, else labour less contract discount, and the parts used.

    Args:
        work_order_id: The work order's id.
    """
    job = _job(db, work_order_id)
    if job["status"] != "completed":
        raise RuntimeError(f"work order {work_order_id} is {job['status']}")
    sql = "SELECT id FROM invoices WHERE work_order_id = ? AND status <> 'void' ORDER BY id LIMIT 1"
    if other := _first(db, sql, work_order_id):
        raise RuntimeError(f"invoice {other['id']} bills this work order")
    customer = _one(db, "customer", "SELECT payment_days FROM customers WHERE id = ?", job["customer_id"])
    cursor = _execute(
        db,
        "INSERT INTO invoices (customer_id, work_order_id, issued_on, due_on) VALUES (?, ?, ?, ?)",
        job["customer_id"],
        work_order_id,
        _today(),
        (date.today() + timedelta(days=customer["payment_days"])).isoformat(),
    )
    for line in _billable(db, job):
        _execute(
            db,
            "INSERT INTO invoice_lines (invoice_id, description, part_id, quantity, unit_price_cents)"
            " VALUES (?, ?, ?, ?, ?)",
            cursor.lastrowid,
            *line.values(),
        )
    return get_invoice(db, cursor.lastrowid)


def _billable(db: sqlite3.Connection, job: dict) -> list[dict]:
    quoted = _all(
        db,
        "SELECT l.description, l.part_id, l.quantity, l.unit_price_cents FROM quote_lines l"
        " JOIN work_orders w ON w.quote_id = l.quote_id WHERE w.id = ? ORDER BY l.id",
        job["id"],
    )
    if quoted:
        return quoted
    work = _one(
        db,
        "completed visit of work order",
        "SELECT j.name, j.labour_cents, v.id AS visit_id, substr(v.starts_at, 1, 10) AS day FROM work_orders w"
        " JOIN job_types j ON j.id = w.job_type_id JOIN visits v ON v.work_order_id = w.id"
        " WHERE w.id = ? AND v.status = 'completed' ORDER BY v.id LIMIT 1",
        job["id"],
    )
    contract = _contract_on(db, job["site_id"], work["day"])
    discount = contract["labour_discount_percent"] if contract else 0
    labour = work["labour_cents"] * (100 - discount) // 100
    parts = _all(
        db,
        "SELECT p.name AS description, p.id AS part_id, u.quantity, p.price_cents AS unit_price_cents"
        " FROM visit_parts u JOIN parts p ON p.id = u.part_id WHERE u.visit_id = ? ORDER BY p.id",
        work["visit_id"],
    )
    return [{"description": work["name"], "part_id": None, "quantity": 1, "unit_price_cents": labour}, *parts]


def record_payment(
    db: sqlite3.Connection,
    invoice_id: int,
    amount_cents: int,
    method: Literal["transfer", "card", "direct_debit"],
) -> dict:
    """Record a payment received today for an open invoice; the invoice is paid once nothing is left open.

    Args:
        invoice_id: The invoice's id.
        amount_cents: Amount in cents, at most what is open.
        method: How it was paid.
    """
    invoice = _invoice(db, invoice_id)
    _within("amount_cents", amount_cents, 1, _MAX_CENTS)
    if invoice["status"] != "open":
        raise RuntimeError(f"invoice {invoice_id} is {invoice['status']}")
    if amount_cents > invoice["open_cents"]:
        raise ValueError(f"only {invoice['open_cents']} cents are open")
    _execute(
        db,
        "INSERT INTO payments (invoice_id, amount_cents, method, received_on) VALUES (?, ?, ?, ?)",
        invoice_id,
        amount_cents,
        method,
        _today(),
    )
    _close_if_settled(db, invoice_id)
    return get_invoice(db, invoice_id)


def list_complaints(
    db: sqlite3.Connection,
    customer_id: int | None = None,
    status: Literal["open", "resolved"] | None = None,
    limit: int = 20,
) -> list[dict]:
    """List complaints, the oldest first.

    Args:
        customer_id: Only complaints of this customer.
        status: Only complaints in this status.
        limit: Most complaints to return, 1 to 50.
    """
    _within("limit", limit, 1, 50)
    return _all(
        db,
        "SELECT c.id, c.work_order_id, t.customer_id, k.name AS customer, c.category, c.description, c.status,"
        " c.opened_on, c.resolution FROM complaints c JOIN work_orders w ON w.id = c.work_order_id"
        " JOIN units u ON u.id = w.unit_id JOIN sites t ON t.id = u.site_id JOIN customers k ON k.id = t.customer_id"
        " WHERE (?1 IS NULL OR t.customer_id = ?1) AND (?2 IS NULL OR c.status = ?2)"
        " ORDER BY c.opened_on, c.id LIMIT ?3",
        customer_id,
        status,
        limit,
    )


def resolve_complaint(db: sqlite3.Connection, complaint_id: int, resolution: str, credit_percent: int = 0) -> dict:
    """Resolve an open complaint, with or without crediting part of the work order's invoice.

    Args:
        complaint_id: The complaint's id.
        resolution: What was agreed.
        credit_percent: Percent of the invoice total to credit, 0 to 20; the amount is rounded down to whole cents.
    """
    complaint = _one(db, "complaint", "SELECT * FROM complaints WHERE id = ?", complaint_id)
    _within("credit_percent", credit_percent, 0, 20)
    if complaint["status"] != "open":
        raise RuntimeError(f"complaint {complaint_id} is {complaint['status']}")
    _execute(
        db,
        "UPDATE complaints SET status = 'resolved', resolved_on = ?, resolution = ? WHERE id = ?",
        _today(),
        _text("resolution", resolution),
        complaint_id,
    )
    sql = "SELECT id FROM invoices WHERE work_order_id = ? AND status <> 'void' ORDER BY id LIMIT 1"
    bill = _first(db, sql, complaint["work_order_id"])
    credit = _credit(db, complaint_id, bill, credit_percent) if credit_percent else 0
    return {"id": complaint_id, "credit_cents": credit, "invoice": _invoice(db, bill["id"]) if bill else None}


def _credit(db: sqlite3.Connection, complaint_id: int, bill: dict | None, percent: int) -> int:
    if bill is None:
        raise RuntimeError("the work order has no invoice to credit")
    invoice = _invoice(db, bill["id"])
    amount = invoice["total_cents"] * percent // 100
    if not 0 < amount <= invoice["open_cents"]:
        raise RuntimeError(f"only {invoice['open_cents']} cents are open on invoice {bill['id']}")
    _execute(
        db,
        "INSERT INTO credit_notes (invoice_id, complaint_id, amount_cents, issued_on) VALUES (?, ?, ?, ?)",
        bill["id"],
        complaint_id,
        amount,
        _today(),
    )
    _close_if_settled(db, bill["id"])
    return amount
