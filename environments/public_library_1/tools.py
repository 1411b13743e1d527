"""The desk of a public library network. Every public function is one tool; the acting user is staff member 1."""

import sqlite3
from datetime import date, datetime, timedelta
from typing import Literal, TypedDict

_USER_ID = 1
_PICKUP_DAYS = 7
_LATE_CAP_CENTS = 1000
_RENEWAL_WINDOW_DAYS = 60
_MAX_UPCOMING_BOOKINGS = 3

Branch = Literal["central", "harbour", "millbrook", "orchard_park", "westgate"]
Plan = Literal["standard", "student", "junior", "senior", "premium"]
Method = Literal["cash", "card", "online"]
MemberStatus = Literal["active", "suspended", "closed"]
HoldStatus = Literal["waiting", "in_transit", "ready", "collected", "cancelled", "expired"]
ChargeStatus = Literal["open", "paid", "waived", "cancelled"]


class OrderLine(TypedDict):
    """One title of an order.

    Args:
        title_id: The title's id.
        copies: How many copies to order.
    """

    title_id: int
    copies: int


def _rows(db: sqlite3.Connection, sql: str, *values: object, **named: object) -> list[dict]:
    return [dict(row) for row in db.execute(sql, named or values)]


def _first(db: sqlite3.Connection, sql: str, *values: object, **named: object) -> dict | None:
    row = db.execute(sql, named or values).fetchone()
    return None if row is None else dict(row)


def _number(db: sqlite3.Connection, sql: str, *values: object) -> int:
    return db.execute(sql, values).fetchone()[0]


def _find(db: sqlite3.Connection, table: str, value: object, column: str = "id") -> dict:
    """The row with this key; table and column are names from this module, never arguments."""
    row = _first(db, f"SELECT * FROM {table} WHERE {column} = ?", value)
    if row is None:
        raise LookupError(f"nothing in {table} has the {column} {str(value)[:60]!r}")
    return row


def _branch_id(db: sqlite3.Connection, code: str) -> int:
    return _find(db, "branches", code, "code")["id"]


def _branch_code(db: sqlite3.Connection, branch_id: int) -> str:
    return _find(db, "branches", branch_id)["code"]


def _limit(limit: int) -> int:
    if not 1 <= limit <= 50:
        raise ValueError("limit must be between 1 and 50")
    return limit


def _text(name: str, value: str, longest: int = 200) -> str:
    text = value.strip()
    if not text or len(text) > longest or not text.isprintable():
        raise ValueError(f"{name} must be one line of 1 to {longest} characters")
    return text


def _email(value: str) -> str:
    email = _text("email", value, 100)
    local, _, domain = email.partition("@")
    if not local or "." not in domain or "@" in domain or " " in email:
        raise ValueError(f"not an e-mail address: {email!r}")
    return email


def _day(name: str, text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = None
    # fromisoformat also reads 20260413 and 2026-W16-1; the database knows one form only
    if day is None or day.isoformat() != text or not 1900 <= day.year <= 2100:
        raise ValueError(f"{name} must be a date as YYYY-MM-DD")
    return day


def _moment(name: str, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text) if len(text) == 16 else None
    except ValueError:
        moment = None
    known_form = moment is not None and moment.tzinfo is None and moment.isoformat(timespec="minutes") == text
    if moment is None or not known_form or not 1900 <= moment.year <= 2100:
        raise ValueError(f"{name} must be a time as YYYY-MM-DDTHH:MM")
    return moment


def _today() -> str:
    return date.today().isoformat()


def _in_days(days: int) -> str:
    return (date.today() + timedelta(days=days)).isoformat()


def _one_year_after(day: date) -> date:
    try:
        return day.replace(year=day.year + 1)
    except ValueError:
        return day.replace(year=day.year + 1, day=28)


def _age(birth_date: str, on: str) -> int:
    return int(on[:4]) - int(birth_date[:4]) - (on[5:10] < birth_date[5:10])


# Members


def _balance(db: sqlite3.Connection, member_id: int) -> int:
    return _number(db, "SELECT coalesce(sum(open_cents), 0) FROM charge_balances WHERE member_id = ?", member_id)


def _valid_member(db: sqlite3.Connection, member_id: int) -> dict:
    """The member, refused unless the membership is active and has not expired."""
    member = _find(db, "members", member_id)
    if member["status"] != "active":
        raise RuntimeError(f"{member['full_name']}'s membership is {member['status']}")
    if member["expires_on"] < _today():
        raise RuntimeError(f"{member['full_name']}'s membership expired on {member['expires_on']}")
    return member


def _plan_for(db: sqlite3.Connection, code: str, birth_date: str) -> dict:
    plan = _find(db, "plans", code, "code")
    age = _age(birth_date, _today())
    if age < plan["min_age"] or (plan["max_age"] is not None and age > plan["max_age"]):
        raise ValueError(f"the {code} plan is not for a person aged {age}")
    return plan


def _add_charge(
    db: sqlite3.Connection,
    member_id: int,
    kind: str,
    amount_cents: int,
    loan_id: int | None = None,
    registration_id: int | None = None,
) -> dict | None:
    if amount_cents == 0:
        return None
    charge_id = db.execute(
        "INSERT INTO charges (member_id, kind, amount_cents, loan_id, registration_id, raised_on)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (member_id, kind, amount_cents, loan_id, registration_id, _today()),
    ).lastrowid
    return _charge(db, charge_id)


def _charge(db: sqlite3.Connection, charge_id: int) -> dict:
    charge = _find(db, "charges", charge_id)
    charge["open_cents"] = _number(db, "SELECT open_cents FROM charge_balances WHERE charge_id = ?", charge_id)
    return charge


def list_branches(db: sqlite3.Connection) -> list[dict]:
    """List the branches with their weekly opening hours and the closed days to come."""
    branches = _rows(db, "SELECT id, code, name, address, phone FROM branches ORDER BY id")
    names = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    for branch in branches:
        hours = _rows(db, "SELECT * FROM opening_hours WHERE branch_id = ? ORDER BY weekday", branch["id"])
        branch["hours"] = {names[row["weekday"]]: f"{row['opens']}-{row['closes']}" for row in hours}
        branch["closed_days"] = _rows(
            db,
            "SELECT closed_on, reason FROM closures WHERE branch_id = ? AND closed_on >= ? ORDER BY closed_on LIMIT 10",
            branch["id"],
            _today(),
        )
    return branches


def list_plans(db: sqlite3.Connection) -> list[dict]:
    """List the membership plans: ages, yearly fee, loan period, limits and late charge per day."""
    return _rows(db, "SELECT * FROM plans ORDER BY id")


def search_members(
    db: sqlite3.Connection, query: str, status: MemberStatus | None = None, limit: int = 20
) -> list[dict]:
    """Find members by a part of their name, card number or e-mail address.

    Args:
        query: The part to look for; case does not matter.
        status: Only members with this status.
        limit: At most this many members, 1 to 50.
    """
    return _rows(
        db,
        "SELECT m.id, m.card_number, m.full_name, m.birth_date, p.code AS plan, b.code AS home_branch, m.expires_on,"
        " m.status FROM members m JOIN plans p ON p.id = m.plan_id JOIN branches b ON b.id = m.home_branch_id"
        " WHERE instr(lower(m.full_name || ' ' || m.card_number || ' ' || coalesce(m.email, '')), lower(:query)) > 0"
        " AND (:status IS NULL OR m.status = :status) ORDER BY m.full_name, m.id LIMIT :limit",
        query=query,
        status=status,
        limit=_limit(limit),
    )


def get_member(db: sqlite3.Connection, member_id: int) -> dict:
    """Show a member: contact data, plan, what is still to pay and how many loans and holds are running.

    Args:
        member_id: The member's id.
    """
    member = _find(db, "members", member_id)
    plan = _find(db, "plans", member.pop("plan_id"))
    loans = _first(
        db,
        "SELECT count(*) AS loans, coalesce(sum(due_on < ?), 0) AS overdue FROM loans"
        " WHERE member_id = ? AND status = 'open'",
        _today(),
        member_id,
    )
    holds = _number(
        db, "SELECT count(*) FROM holds WHERE member_id = ? AND status IN ('waiting', 'in_transit', 'ready')", member_id
    )
    home_branch = _branch_code(db, member.pop("home_branch_id"))
    return {
        **member,
        "home_branch": home_branch,
        "plan": plan["code"],
        "open_loans": loans["loans"],
        "overdue_loans": loans["overdue"],
        "live_holds": holds,
        "balance_cents": _balance(db, member_id),
    }


def register_member(
    db: sqlite3.Connection,
    full_name: str,
    birth_date: str,
    plan: Plan,
    home_branch: Branch,
    email: str | None = None,
    phone: str | None = None,
) -> dict:
    """Register a new member for one year from today; the plan's yearly fee becomes an open charge.

    Args:
        full_name: The member's full name.
        birth_date: Date of birth, YYYY-MM-DD.
        plan: The membership plan; it must suit the member's age.
        home_branch: The branch the member uses most.
        email: E-mail address, not used by another member.
        phone: Phone number.
    """
    born = _day("birth_date", birth_date)
    if born > date.today():
        raise ValueError("birth_date is in the future")
    chosen = _plan_for(db, plan, birth_date)
    number = 40001 + _number(db, "SELECT max(id) FROM members")
    member_id = db.execute(
        "INSERT INTO members (card_number, full_name, birth_date, email, phone, plan_id, home_branch_id, joined_on,"
        " expires_on) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            f"VL-{number}",
            _text("full_name", full_name, 100),
            birth_date,
            None if email is None else _email(email),
            None if phone is None else _text("phone", phone, 30),
            chosen["id"],
            _branch_id(db, home_branch),
            _today(),
            _one_year_after(date.today()).isoformat(),
        ),
    ).lastrowid
    _add_charge(db, member_id, "membership", chosen["yearly_fee_cents"])
    return get_member(db, member_id)


def update_member(
    db: sqlite3.Connection,
    member_id: int,
    email: str | None = None,
    phone: str | None = None,
    home_branch: Branch | None = None,
) -> dict:
    """Change a member's contact data or home branch; what is not given stays as it is.

    Args:
        member_id: The member's id.
        email: The new e-mail address.
        phone: The new phone number.
        home_branch: The new home branch.
    """
    member = _find(db, "members", member_id)
    if member["status"] == "closed":
        raise RuntimeError(f"{member['full_name']}'s membership is closed")
    if email is None and phone is None and home_branch is None:
        raise ValueError("give at least one of email, phone and home_branch")
    db.execute(
        "UPDATE members SET email = ?, phone = ?, home_branch_id = ? WHERE id = ?",
        (
            member["email"] if email is None else _email(email),
            member["phone"] if phone is None else _text("phone", phone, 30),
            member["home_branch_id"] if home_branch is None else _branch_id(db, home_branch),
            member_id,
        ),
    )
    return get_member(db, member_id)


def renew_membership(db: sqlite3.Connection, member_id: int, plan: Plan | None = None) -> dict:
    """Renew a membership for one more year; the yearly fee becomes an open charge.

    Possible from 60 days before the membership ends, and only when the member owes nothing.

    Args:
        member_id: The member's id.
        plan: The plan for the new year; omitted keeps the present one.
    """
    member = _find(db, "members", member_id)
    if member["status"] != "active":
        raise RuntimeError(f"{member['full_name']}'s membership is {member['status']}")
    if member["expires_on"] > _in_days(_RENEWAL_WINDOW_DAYS):
        raise RuntimeError(f"the membership runs until {member['expires_on']}: too early to renew it")
    if balance := _balance(db, member_id):
        raise RuntimeError(f"{balance} cents are still to pay")
    present = _find(db, "plans", member["plan_id"])
    chosen = _plan_for(db, plan or present["code"], member["birth_date"])
    start = max(date.today(), date.fromisoformat(member["expires_on"]))
    db.execute(
        "UPDATE members SET plan_id = ?, expires_on = ? WHERE id = ?",
        (chosen["id"], _one_year_after(start).isoformat(), member_id),
    )
    charge = _add_charge(db, member_id, "membership", chosen["yearly_fee_cents"])
    return {"member": get_member(db, member_id), "charge": charge}


# Catalogue

_AUTHORS = (
    "(SELECT group_concat(full_name, ', ') FROM (SELECT a.full_name FROM title_authors x JOIN authors a"
    " ON a.id = x.author_id WHERE x.title_id = t.id ORDER BY x.part, a.full_name)) AS authors"
)


def search_titles(
    db: sqlite3.Connection,
    query: str = "",
    author: str = "",
    kind: Literal["book", "audiobook", "film", "game"] | None = None,
    subject: str = "",
    limit: int = 20,
) -> list[dict]:
    """Find titles in the catalogue; all conditions given must hold.

    Args:
        query: Part of the title's name or its ISBN; case does not matter.
        author: Part of the name of an author or other contributor.
        kind: Only this kind of title.
        subject: Part of the subject, such as novel or cooking.
        limit: At most this many titles, 1 to 50.
    """
    return _rows(
        db,
        f"SELECT t.id, t.isbn, t.name, t.kind, t.subject, t.language, t.published, {_AUTHORS},"
        " (SELECT count(*) FROM copies c WHERE c.title_id = t.id AND c.status = 'available') AS copies_available"
        " FROM titles t WHERE instr(lower(t.name || ' ' || coalesce(t.isbn, '')), lower(:query)) > 0"
        " AND (:author = '' OR EXISTS (SELECT 1 FROM title_authors x JOIN authors a ON a.id = x.author_id"
        " WHERE x.title_id = t.id AND instr(lower(a.full_name), lower(:author)) > 0))"
        " AND (:kind IS NULL OR t.kind = :kind) AND instr(lower(t.subject), lower(:subject)) > 0"
        " ORDER BY t.name, t.id LIMIT :limit",
        query=query,
        author=author,
        kind=kind,
        subject=subject,
        limit=_limit(limit),
    )


def get_title(db: sqlite3.Connection, title_id: int) -> dict:
    """Show a title: all copies and where they are, the number of holds by status and suppliers' offers.

    Args:
        title_id: The title's id.
    """
    title = _find(db, "titles", title_id)
    title["contributors"] = _rows(
        db,
        "SELECT a.full_name, x.part FROM title_authors x JOIN authors a ON a.id = x.author_id WHERE x.title_id = ?"
        " ORDER BY x.part, a.full_name",
        title_id,
    )
    title["copies"] = _rows(
        db,
        "SELECT c.barcode, b.code AS branch, c.is_reference, c.status FROM copies c"
        " JOIN branches b ON b.id = c.branch_id WHERE c.title_id = ? ORDER BY c.barcode LIMIT 50",
        title_id,
    )
    for copy in title["copies"]:
        copy["is_reference"] = bool(copy["is_reference"])
    title["live_holds"] = {
        status: _number(db, "SELECT count(*) FROM holds WHERE title_id = ? AND status = ?", title_id, status)
        for status in ("waiting", "in_transit", "ready")
    }
    title["offers"] = _rows(
        db,
        "SELECT s.code AS supplier_code, s.name AS supplier, s.delivery_days, s.is_active, o.price_cents FROM offers o"
        " JOIN suppliers s ON s.id = o.supplier_id WHERE o.title_id = ? ORDER BY s.name",
        title_id,
    )
    for offer in title["offers"]:
        offer["is_active"] = bool(offer["is_active"])
    return title


def get_copy(db: sqlite3.Connection, barcode: str) -> dict:
    """Show a copy: its title, branch and status and, where there is one, its open loan.

    Args:
        barcode: The copy's barcode.
    """
    copy = _find(db, "copies", barcode, "barcode")
    title = _find(db, "titles", copy["title_id"])
    loan = _first(db, "SELECT id FROM loans WHERE copy_id = ? AND status = 'open'", copy["id"])
    return {
        "barcode": copy["barcode"],
        "title_id": title["id"],
        "title": title["name"],
        "kind": title["kind"],
        "branch": _branch_code(db, copy["branch_id"]),
        "is_reference": bool(copy["is_reference"]),
        "status": copy["status"],
        "loan": None if loan is None else _loan(db, loan["id"]),
    }


def update_copy_status(
    db: sqlite3.Connection, barcode: str, status: Literal["available", "in_repair", "withdrawn"]
) -> dict:
    """Send a copy to repair, withdraw it for good, or bring a repaired or found copy back into circulation.

    A copy that comes back goes to the oldest waiting hold, if there is one.

    Args:
        barcode: The copy's barcode.
        status: The new status; only copies that are neither lent, on the hold shelf nor in transit can change.
    """
    copy = _find(db, "copies", barcode, "barcode")
    reachable = {
        "available": ("in_repair", "withdrawn"),
        "in_repair": ("available", "withdrawn"),
        "lost": ("available", "in_repair", "withdrawn"),
    }
    if status not in reachable.get(copy["status"], ()):
        raise RuntimeError(f"copy {copy['barcode']} is {copy['status']} and cannot become {status}")
    if status == "available":
        _put_to_use(db, copy["id"], copy["branch_id"])
    else:
        db.execute("UPDATE copies SET status = ? WHERE id = ?", (status, copy["id"]))
    return get_copy(db, barcode)


# Loans


def _put_to_use(db: sqlite3.Connection, copy_id: int, branch_id: int) -> dict | None:
    """Place a copy that stands at a branch: for the oldest waiting hold, which is returned, or on the open shelf."""
    copy = _find(db, "copies", copy_id)
    hold = _first(
        db,
        "SELECT * FROM holds WHERE title_id = ? AND status = 'waiting' ORDER BY placed_at, id LIMIT 1",
        copy["title_id"],
    )
    if hold is None or copy["is_reference"]:
        db.execute("UPDATE copies SET status = 'available', branch_id = ? WHERE id = ?", (branch_id, copy_id))
        return None
    if hold["pickup_branch_id"] == branch_id:
        _make_ready(db, hold["id"], copy_id, branch_id)
    else:
        _send(db, copy_id, branch_id, hold["pickup_branch_id"], hold["id"])
    return _hold(db, hold["id"])


def _make_ready(db: sqlite3.Connection, hold_id: int, copy_id: int, branch_id: int) -> None:
    db.execute("UPDATE copies SET status = 'on_hold_shelf', branch_id = ? WHERE id = ?", (branch_id, copy_id))
    db.execute(
        "UPDATE holds SET status = 'ready', copy_id = ?, ready_until = ? WHERE id = ?",
        (copy_id, _in_days(_PICKUP_DAYS), hold_id),
    )


def _send(db: sqlite3.Connection, copy_id: int, from_id: int, to_id: int, hold_id: int | None) -> int:
    db.execute("UPDATE copies SET status = 'in_transit', branch_id = ? WHERE id = ?", (from_id, copy_id))
    if hold_id is not None:
        db.execute("UPDATE holds SET status = 'in_transit', copy_id = ? WHERE id = ?", (copy_id, hold_id))
    return db.execute(
        "INSERT INTO transfers (copy_id, from_branch_id, to_branch_id, hold_id, sent_on) VALUES (?, ?, ?, ?, ?)",
        (copy_id, from_id, to_id, hold_id, _today()),
    ).lastrowid


_LOANS = (
    "SELECT l.id, c.barcode, t.id AS title_id, t.name AS title, b.code AS branch, m.id AS member_id,"
    " m.full_name AS member, l.loaned_on, l.due_on, l.status, l.closed_on, l.renewals,"
    " max(p.max_renewals - l.renewals, 0) AS renewals_left,"
    " CASE l.status WHEN 'open' THEN CAST(max(julianday(:today) - julianday(l.due_on), 0) AS INTEGER) ELSE 0 END"
    " AS days_overdue,"
    " (SELECT count(*) FROM holds h WHERE h.title_id = t.id AND h.status = 'waiting') AS waiting_holds"
    " FROM loans l JOIN copies c ON c.id = l.copy_id JOIN titles t ON t.id = c.title_id"
    " JOIN branches b ON b.id = c.branch_id JOIN members m ON m.id = l.member_id JOIN plans p ON p.id = m.plan_id"
)


def _loan(db: sqlite3.Connection, loan_id: int) -> dict:
    loan = _first(db, f"{_LOANS} WHERE l.id = :id", id=loan_id, today=_today())
    if loan is None:
        raise LookupError(f"there is no loan {loan_id}")
    return loan


def _open_loan(db: sqlite3.Connection, loan_id: int) -> dict:
    loan = _loan(db, loan_id)
    if loan["status"] != "open":
        raise RuntimeError(f"loan {loan_id} was closed on {loan['closed_on']}: {loan['status']}")
    return loan


def list_loans(
    db: sqlite3.Connection,
    member_id: int | None = None,
    branch: Branch | None = None,
    only_overdue: bool = False,
    include_closed: bool = False,
    limit: int = 20,
) -> list[dict]:
    """List loans, the earliest due date first.

    Args:
        member_id: Only this member's loans.
        branch: Only loans of copies that belong to this branch.
        only_overdue: Only open loans due before today.
        include_closed: Also loans that were returned or lost; otherwise only open ones.
        limit: At most this many loans, 1 to 50.
    """
    if member_id is not None:
        _find(db, "members", member_id)
    return _rows(
        db,
        f"{_LOANS} WHERE (:member_id IS NULL OR l.member_id = :member_id) AND (:branch IS NULL OR b.code = :branch)"
        " AND (NOT :only_overdue OR (l.status = 'open' AND l.due_on < :today))"
        " AND (:include_closed OR l.status = 'open') ORDER BY l.due_on, l.id LIMIT :limit",
        member_id=member_id,
        branch=branch,
        only_overdue=only_overdue,
        include_closed=include_closed,
        today=_today(),
        limit=_limit(limit),
    )


def checkout_copy(db: sqlite3.Connection, member_id: int, barcode: str) -> dict:
    """Lend a copy to a member, from the open shelf or from the hold shelf if it is kept for this member.

    Refused with overdue loans, with too much to pay, at the plan's loan limit and below the title's age limit.

    Args:
        member_id: The member's id.
        barcode: The copy's barcode.
    """
    member = _valid_member(db, member_id)
    plan = _find(db, "plans", member["plan_id"])
    copy = _find(db, "copies", barcode, "barcode")
    title = _find(db, "titles", copy["title_id"])
    if copy["is_reference"]:
        raise PermissionError(f"copy {copy['barcode']} is for reference and never lent")
    if _age(member["birth_date"], _today()) < title["min_age"]:
        raise PermissionError(f"{title['name']} is lent from the age of {title['min_age']}")
    loans = _rows(db, "SELECT due_on FROM loans WHERE member_id = ? AND status = 'open' ORDER BY due_on", member_id)
    if loans and loans[0]["due_on"] < _today():
        raise RuntimeError(f"{member['full_name']} has an overdue loan")
    if len(loans) >= plan["max_loans"]:
        raise RuntimeError(f"{member['full_name']} has reached the limit of {plan['max_loans']} loans")
    if (balance := _balance(db, member_id)) > plan["blocked_above_cents"]:
        raise RuntimeError(f"{member['full_name']} owes {balance} cents: lending is blocked")
    if copy["status"] == "on_hold_shelf":
        hold = _first(db, "SELECT * FROM holds WHERE copy_id = ? AND status = 'ready' ORDER BY id", copy["id"])
        if hold is None or hold["member_id"] != member_id:
            raise RuntimeError(f"copy {copy['barcode']} is kept for another member")
        db.execute("UPDATE holds SET status = 'collected' WHERE id = ?", (hold["id"],))
    elif copy["status"] != "available":
        raise RuntimeError(f"copy {copy['barcode']} is {copy['status']}")
    db.execute("UPDATE copies SET status = 'on_loan' WHERE id = ?", (copy["id"],))
    loan_id = db.execute(
        "INSERT INTO loans (copy_id, member_id, loaned_on, due_on) VALUES (?, ?, ?, ?)",
        (copy["id"], member_id, _today(), _in_days(plan["loan_days"])),
    ).lastrowid
    return _loan(db, loan_id)


def return_copy(db: sqlite3.Connection, barcode: str, branch: Branch) -> dict:
    """Take back a lent copy. An overdue one raises a late charge; the oldest waiting hold gets the copy.

    Args:
        barcode: The copy's barcode.
        branch: The branch where it was handed in; without a hold it stays there.
    """
    copy = _find(db, "copies", barcode, "barcode")
    row = _first(db, "SELECT id FROM loans WHERE copy_id = ? AND status = 'open'", copy["id"])
    if row is None:
        raise RuntimeError(f"copy {copy['barcode']} is not on loan but {copy['status']}")
    loan = _loan(db, row["id"])
    member = _find(db, "members", loan["member_id"])
    plan = _find(db, "plans", member["plan_id"])
    db.execute("UPDATE loans SET status = 'returned', closed_on = ? WHERE id = ?", (_today(), loan["id"]))
    late_cents = min(loan["days_overdue"] * plan["late_cents_per_day"], _LATE_CAP_CENTS)
    charge = _add_charge(db, member["id"], "late", late_cents, loan_id=loan["id"])
    hold = _put_to_use(db, copy["id"], _branch_id(db, branch))
    return {"loan": _loan(db, loan["id"]), "charge": charge, "hold": hold, "copy": get_copy(db, barcode)}


def renew_loan(db: sqlite3.Connection, loan_id: int) -> dict:
    """Renew an open loan: the plan's loan period starts anew today.

    Refused if the loan is overdue, has no renewals left or somebody waits for the title.

    Args:
        loan_id: The loan's id.
    """
    loan = _open_loan(db, loan_id)
    member = _valid_member(db, loan["member_id"])
    plan = _find(db, "plans", member["plan_id"])
    due_on = _in_days(plan["loan_days"])
    if loan["days_overdue"]:
        raise RuntimeError(f"loan {loan_id} is overdue: the copy has to be returned")
    if not loan["renewals_left"]:
        raise RuntimeError(f"loan {loan_id} has no renewals left")
    if loan["waiting_holds"]:
        raise RuntimeError(f"{loan['waiting_holds']} members wait for {loan['title']}")
    if due_on <= loan["due_on"]:
        raise RuntimeError(f"loan {loan_id} is already due as late as {loan['due_on']}")
    db.execute("UPDATE loans SET due_on = ?, renewals = renewals + 1 WHERE id = ?", (due_on, loan_id))
    return _loan(db, loan_id)


def report_loan_lost(db: sqlite3.Connection, loan_id: int) -> dict:
    """Close an open loan because the member lost the copy; the replacement price becomes an open charge.

    Args:
        loan_id: The loan's id.
    """
    loan = _open_loan(db, loan_id)
    title = _find(db, "titles", loan["title_id"])
    db.execute("UPDATE loans SET status = 'lost', closed_on = ? WHERE id = ?", (_today(), loan_id))
    db.execute("UPDATE copies SET status = 'lost' WHERE barcode = ?", (loan["barcode"],))
    charge = _add_charge(db, loan["member_id"], "lost", title["replacement_cents"], loan_id=loan_id)
    return {"loan": _loan(db, loan_id), "charge": charge}


# Holds and transfers

_HOLDS = (
    "SELECT h.id, h.title_id, t.name AS title, h.member_id, m.full_name AS member, b.code AS pickup_branch, h.status,"
    " c.barcode, h.ready_until, h.placed_at FROM holds h JOIN titles t ON t.id = h.title_id"
    " JOIN members m ON m.id = h.member_id JOIN branches b ON b.id = h.pickup_branch_id"
    " LEFT JOIN copies c ON c.id = h.copy_id"
)


def _hold(db: sqlite3.Connection, hold_id: int) -> dict:
    hold = _first(db, f"{_HOLDS} WHERE h.id = ?", hold_id)
    if hold is None:
        raise LookupError(f"there is no hold {hold_id}")
    return hold


def list_holds(
    db: sqlite3.Connection,
    title_id: int | None = None,
    member_id: int | None = None,
    pickup_branch: Branch | None = None,
    status: HoldStatus | None = None,
    limit: int = 20,
) -> list[dict]:
    """List holds, the oldest first, which is the order in which waiting holds are served.

    Args:
        title_id: Only holds on this title.
        member_id: Only this member's holds.
        pickup_branch: Only holds to be collected at this branch.
        status: Only holds with this status.
        limit: At most this many holds, 1 to 50.
    """
    return _rows(
        db,
        f"{_HOLDS} WHERE (:title_id IS NULL OR h.title_id = :title_id)"
        " AND (:member_id IS NULL OR h.member_id = :member_id) AND (:branch IS NULL OR b.code = :branch)"
        " AND (:status IS NULL OR h.status = :status) ORDER BY h.placed_at, h.id LIMIT :limit",
        title_id=title_id,
        member_id=member_id,
        branch=pickup_branch,
        status=status,
        limit=_limit(limit),
    )


def place_hold(db: sqlite3.Connection, member_id: int, title_id: int, pickup_branch: Branch) -> dict:
    """Reserve a title for a member. A copy available at another branch is sent to the pickup branch at once.

    Refused if a copy is available at the pickup branch itself or the title has no copy that is ever lent.

    Args:
        member_id: The member's id.
        title_id: The title's id.
        pickup_branch: The branch where the member wants to collect it.
    """
    member = _valid_member(db, member_id)
    plan = _find(db, "plans", member["plan_id"])
    title = _find(db, "titles", title_id)
    branch_id = _branch_id(db, pickup_branch)
    live = _rows(
        db,
        "SELECT title_id FROM holds WHERE member_id = ? AND status IN ('waiting', 'in_transit', 'ready') ORDER BY id",
        member_id,
    )
    if any(hold["title_id"] == title_id for hold in live):
        raise RuntimeError(f"{member['full_name']} already has a hold on {title['name']}")
    if len(live) >= plan["max_holds"]:
        raise RuntimeError(f"{member['full_name']} has reached the limit of {plan['max_holds']} holds")
    if _age(member["birth_date"], _today()) < title["min_age"]:
        raise PermissionError(f"{title['name']} is lent from the age of {title['min_age']}")
    if _first(
        db,
        "SELECT l.id FROM loans l JOIN copies c ON c.id = l.copy_id"
        " WHERE l.member_id = ? AND c.title_id = ? AND l.status = 'open'",
        member_id,
        title_id,
    ):
        raise RuntimeError(f"{member['full_name']} has {title['name']} on loan")
    copies = _rows(
        db,
        "SELECT id, branch_id, status FROM copies WHERE title_id = ? AND NOT is_reference"
        " AND status NOT IN ('lost', 'withdrawn') ORDER BY id",
        title_id,
    )
    if not copies:
        raise RuntimeError(f"no copy of {title['name']} is ever lent")
    free = [copy for copy in copies if copy["status"] == "available"]
    if any(copy["branch_id"] == branch_id for copy in free):
        raise RuntimeError(f"a copy of {title['name']} is available at {pickup_branch}: lend it instead")
    hold_id = db.execute(
        "INSERT INTO holds (title_id, member_id, pickup_branch_id) VALUES (?, ?, ?)", (title_id, member_id, branch_id)
    ).lastrowid
    if free:
        _send(db, free[0]["id"], free[0]["branch_id"], branch_id, hold_id)
    return _hold(db, hold_id)


def cancel_hold(db: sqlite3.Connection, hold_id: int) -> dict:
    """Cancel a hold that was not collected; a copy kept for it goes to the next waiting hold or back to the shelf.

    Args:
        hold_id: The hold's id.
    """
    hold = _find(db, "holds", hold_id)
    if hold["status"] not in ("waiting", "in_transit", "ready"):
        raise RuntimeError(f"hold {hold_id} is already {hold['status']}")
    db.execute("UPDATE holds SET status = 'cancelled' WHERE id = ?", (hold_id,))
    next_hold = None
    if hold["status"] == "ready":
        next_hold = _put_to_use(db, hold["copy_id"], hold["pickup_branch_id"])
    return {"hold": _hold(db, hold_id), "next_hold": next_hold}


_TRANSFERS = (
    "SELECT x.id, c.barcode, t.name AS title, f.code AS from_branch, g.code AS to_branch, x.hold_id, x.sent_on,"
    " x.received_on, x.status FROM transfers x JOIN copies c ON c.id = x.copy_id JOIN titles t ON t.id = c.title_id"
    " JOIN branches f ON f.id = x.from_branch_id JOIN branches g ON g.id = x.to_branch_id"
)


def list_transfers(
    db: sqlite3.Connection,
    status: Literal["in_transit", "received"] | None = None,
    to_branch: Branch | None = None,
    limit: int = 20,
) -> list[dict]:
    """List transfers of copies between branches, the latest first.

    Args:
        status: Only transfers with this status.
        to_branch: Only transfers to this branch.
        limit: At most this many transfers, 1 to 50.
    """
    return _rows(
        db,
        f"{_TRANSFERS} WHERE (:status IS NULL OR x.status = :status) AND (:branch IS NULL OR g.code = :branch)"
        " ORDER BY x.sent_on DESC, x.id DESC LIMIT :limit",
        status=status,
        branch=to_branch,
        limit=_limit(limit),
    )


def send_transfer(db: sqlite3.Connection, barcode: str, to_branch: Branch) -> dict:
    """Send an available copy to another branch, where it will stand from then on.

    Args:
        barcode: The copy's barcode.
        to_branch: The branch to send it to.
    """
    copy = _find(db, "copies", barcode, "barcode")
    branch_id = _branch_id(db, to_branch)
    if copy["status"] != "available":
        raise RuntimeError(f"copy {copy['barcode']} is {copy['status']}")
    if copy["branch_id"] == branch_id:
        raise ValueError(f"copy {copy['barcode']} already stands at {to_branch}")
    transfer_id = _send(db, copy["id"], copy["branch_id"], branch_id, None)
    return _rows(db, f"{_TRANSFERS} WHERE x.id = ?", transfer_id)[0]


def receive_transfer(db: sqlite3.Connection, transfer_id: int) -> dict:
    """Book the arrival of a copy; it becomes ready for the hold it was sent for, else for the oldest waiting one.

    Args:
        transfer_id: The transfer's id.
    """
    transfer = _find(db, "transfers", transfer_id)
    if transfer["status"] != "in_transit":
        raise RuntimeError(f"transfer {transfer_id} was received on {transfer['received_on']}")
    db.execute("UPDATE transfers SET status = 'received', received_on = ? WHERE id = ?", (_today(), transfer_id))
    copy_id, branch_id = transfer["copy_id"], transfer["to_branch_id"]
    hold = None if transfer["hold_id"] is None else _find(db, "holds", transfer["hold_id"])
    if hold is not None and hold["status"] == "in_transit":
        _make_ready(db, hold["id"], copy_id, branch_id)
        served = _hold(db, hold["id"])
    else:
        served = _put_to_use(db, copy_id, branch_id)
    return {"transfer": _rows(db, f"{_TRANSFERS} WHERE x.id = ?", transfer_id)[0], "hold": served}


# Charges and payments


def list_charges(
    db: sqlite3.Connection, member_id: int, status: ChargeStatus | None = None, limit: int = 20
) -> list[dict]:
    """List a member's charges with what is still open on each, the oldest first.

    Args:
        member_id: The member's id.
        status: Only charges with this status.
        limit: At most this many charges, 1 to 50.
    """
    _find(db, "members", member_id)
    return _rows(
        db,
        "SELECT c.id, c.kind, c.amount_cents, b.open_cents, c.raised_on, c.status, c.waived_on, c.waive_reason,"
        " c.loan_id, t.name AS title, c.registration_id, e.name AS event"
        " FROM charges c JOIN charge_balances b ON b.charge_id = c.id LEFT JOIN loans l ON l.id = c.loan_id"
        " LEFT JOIN copies k ON k.id = l.copy_id LEFT JOIN titles t ON t.id = k.title_id"
        " LEFT JOIN registrations r ON r.id = c.registration_id LEFT JOIN events e ON e.id = r.event_id"
        " WHERE c.member_id = :member_id AND (:status IS NULL OR c.status = :status)"
        " ORDER BY c.raised_on, c.id LIMIT :limit",
        member_id=member_id,
        status=status,
        limit=_limit(limit),
    )


def record_payment(db: sqlite3.Connection, charge_id: int, amount_cents: int, method: Method) -> dict:
    """Record a payment of an open charge, which is paid once nothing is left open.

    Args:
        charge_id: The charge's id.
        amount_cents: Amount in cents, at most what is open.
        method: How it was paid.
    """
    charge = _charge(db, charge_id)
    if charge["status"] != "open":
        raise RuntimeError(f"charge {charge_id} is {charge['status']}")
    if not 1 <= amount_cents <= charge["open_cents"]:
        raise ValueError(f"amount_cents must be between 1 and {charge['open_cents']}")
    db.execute(
        "INSERT INTO payments (charge_id, amount_cents, method, paid_on, taken_by) VALUES (?, ?, ?, ?, ?)",
        (charge_id, amount_cents, method, _today(), _USER_ID),
    )
    if amount_cents == charge["open_cents"]:
        db.execute("UPDATE charges SET status = 'paid' WHERE id = ?", (charge_id,))
    return _charge(db, charge_id)


def waive_charge(db: sqlite3.Connection, charge_id: int, reason: str) -> dict:
    """Waive what is open of a late charge. The library's rules say when this is allowed.

    Args:
        charge_id: The charge's id.
        reason: Why it is waived.
    """
    charge = _find(db, "charges", charge_id)
    if charge["kind"] != "late":
        raise PermissionError(f"charge {charge_id} is for {charge['kind']}: only late charges can be waived")
    if charge["status"] != "open":
        raise RuntimeError(f"charge {charge_id} is {charge['status']}")
    db.execute(
        "UPDATE charges SET status = 'waived', waived_on = ?, waive_reason = ? WHERE id = ?",
        (_today(), _text("reason", reason), charge_id),
    )
    return _charge(db, charge_id)


# Rooms


def _check_slot(db: sqlite3.Connection, room: dict, starts_at: str, ends_at: str, event_id: int = 0) -> None:
    """Refuse a time in the past, outside opening hours or taken; event_id is an event that may be moved away."""
    start, end = _moment("starts_at", starts_at), _moment("ends_at", ends_at)
    if end <= start or start.date() != end.date():
        raise ValueError("ends_at must be later than starts_at on the same day")
    if starts_at < datetime.now().isoformat(timespec="minutes"):
        raise ValueError("starts_at is in the past")
    if not _is_open(db, room["branch_id"], starts_at, ends_at):
        raise RuntimeError(f"{_branch_code(db, room['branch_id'])} is not open from {starts_at} to {ends_at}")
    if _is_taken(db, room["id"], starts_at, ends_at, event_id):
        raise RuntimeError(f"{room['name']} is taken between {starts_at} and {ends_at}")


def _is_open(db: sqlite3.Connection, branch_id: int, starts_at: str, ends_at: str) -> bool:
    day = starts_at[:10]
    if _first(db, "SELECT 1 FROM closures WHERE branch_id = ? AND closed_on = ?", branch_id, day):
        return False
    weekday = date.fromisoformat(day).weekday()
    hours = _first(db, "SELECT * FROM opening_hours WHERE branch_id = ? AND weekday = ?", branch_id, weekday)
    return hours is not None and hours["opens"] <= starts_at[11:] and ends_at[11:] <= hours["closes"]


def _is_taken(db: sqlite3.Connection, room_id: int, starts_at: str, ends_at: str, event_id: int = 0) -> bool:
    found = _first(
        db,
        "SELECT 1 FROM room_bookings WHERE room_id = :room_id AND status = 'confirmed'"
        " AND starts_at < :ends_at AND ends_at > :starts_at"
        " UNION ALL SELECT 1 FROM events WHERE room_id = :room_id AND status <> 'cancelled'"
        " AND starts_at < :ends_at AND ends_at > :starts_at AND id <> :event_id",
        room_id=room_id,
        starts_at=starts_at,
        ends_at=ends_at,
        event_id=event_id,
    )
    return found is not None


def find_rooms(
    db: sqlite3.Connection,
    branch: Branch | None = None,
    min_capacity: int = 1,
    needs_projector: bool = False,
    starts_at: str | None = None,
    ends_at: str | None = None,
) -> list[dict]:
    """Find rooms by branch, size and equipment; with a time span only those free and open all through it.

    Args:
        branch: Only rooms of this branch.
        min_capacity: Only rooms that seat at least this many people.
        needs_projector: Only rooms with a projector.
        starts_at: Start of the span, YYYY-MM-DDTHH:MM; needs ends_at.
        ends_at: End of the span, YYYY-MM-DDTHH:MM, on the same day.
    """
    rooms = _rows(
        db,
        "SELECT r.id, b.code AS branch, r.branch_id, r.name, r.capacity, r.has_projector FROM rooms r"
        " JOIN branches b ON b.id = r.branch_id WHERE (:branch IS NULL OR b.code = :branch)"
        " AND r.capacity >= :min_capacity AND (NOT :needs_projector OR r.has_projector) ORDER BY r.branch_id, r.name",
        branch=branch,
        min_capacity=min_capacity,
        needs_projector=needs_projector,
    )
    if (starts_at is None) != (ends_at is None):
        raise ValueError("give both starts_at and ends_at or neither")
    if starts_at is not None and ends_at is not None:
        start, end = _moment("starts_at", starts_at), _moment("ends_at", ends_at)
        if end <= start or start.date() != end.date():
            raise ValueError("ends_at must be later than starts_at on the same day")
        rooms = [
            room
            for room in rooms
            if _is_open(db, room["branch_id"], starts_at, ends_at) and not _is_taken(db, room["id"], starts_at, ends_at)
        ]
    return [
        {key: bool(value) if key == "has_projector" else value for key, value in room.items() if key != "branch_id"}
        for room in rooms
    ]


_BOOKINGS = (
    "SELECT k.id, k.room_id, r.name AS room, b.code AS branch, k.member_id, m.full_name AS member, k.starts_at,"
    " k.ends_at, k.attendees, k.purpose, k.status FROM room_bookings k JOIN rooms r ON r.id = k.room_id"
    " JOIN branches b ON b.id = r.branch_id JOIN members m ON m.id = k.member_id"
)


def list_room_bookings(
    db: sqlite3.Connection,
    first_day: str,
    last_day: str,
    branch: Branch | None = None,
    member_id: int | None = None,
    limit: int = 20,
) -> list[dict]:
    """List room bookings in a span of days, cancelled ones included, in order of time. Events are listed elsewhere.

    Args:
        first_day: First day, YYYY-MM-DD.
        last_day: Last day, YYYY-MM-DD.
        branch: Only rooms of this branch.
        member_id: Only this member's bookings.
        limit: At most this many bookings, 1 to 50.
    """
    return _rows(
        db,
        f"{_BOOKINGS} WHERE date(k.starts_at) BETWEEN :first_day AND :last_day"
        " AND (:branch IS NULL OR b.code = :branch) AND (:member_id IS NULL OR k.member_id = :member_id)"
        " ORDER BY k.starts_at, k.id LIMIT :limit",
        first_day=_day("first_day", first_day).isoformat(),
        last_day=_day("last_day", last_day).isoformat(),
        branch=branch,
        member_id=member_id,
        limit=_limit(limit),
    )


def book_room(
    db: sqlite3.Connection, room_id: int, member_id: int, starts_at: str, ends_at: str, attendees: int, purpose: str
) -> dict:
    """Book a room for a member's group, within opening hours and for half an hour to four hours.

    Args:
        room_id: The room's id.
        member_id: The member who answers for the group.
        starts_at: Start, YYYY-MM-DDTHH:MM.
        ends_at: End, YYYY-MM-DDTHH:MM, on the same day.
        attendees: How many people come; the room must seat them.
        purpose: What the group will do.
    """
    member = _valid_member(db, member_id)
    room = _find(db, "rooms", room_id)
    if not 1 <= attendees <= room["capacity"]:
        raise ValueError(f"{room['name']} seats 1 to {room['capacity']} people")
    _check_slot(db, room, starts_at, ends_at)
    length = _moment("ends_at", ends_at) - _moment("starts_at", starts_at)
    if not timedelta(minutes=30) <= length <= timedelta(hours=4):
        raise ValueError("a booking lasts between half an hour and four hours")
    upcoming = _number(
        db,
        "SELECT count(*) FROM room_bookings WHERE member_id = ? AND status = 'confirmed' AND date(starts_at) >= ?",
        member_id,
        _today(),
    )
    if upcoming >= _MAX_UPCOMING_BOOKINGS:
        raise RuntimeError(f"{member['full_name']} already has {upcoming} bookings to come")
    booking_id = db.execute(
        "INSERT INTO room_bookings (room_id, member_id, starts_at, ends_at, attendees, purpose)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (room_id, member_id, starts_at, ends_at, attendees, _text("purpose", purpose)),
    ).lastrowid
    return _rows(db, f"{_BOOKINGS} WHERE k.id = ?", booking_id)[0]


def cancel_room_booking(db: sqlite3.Connection, booking_id: int) -> dict:
    """Cancel a confirmed room booking that has not begun.

    Args:
        booking_id: The booking's id.
    """
    booking = _find(db, "room_bookings", booking_id)
    if booking["status"] != "confirmed":
        raise RuntimeError(f"booking {booking_id} is already cancelled")
    if booking["starts_at"] <= datetime.now().isoformat(timespec="minutes"):
        raise RuntimeError(f"booking {booking_id} began at {booking['starts_at']}")
    db.execute("UPDATE room_bookings SET status = 'cancelled' WHERE id = ?", (booking_id,))
    return _rows(db, f"{_BOOKINGS} WHERE k.id = ?", booking_id)[0]


# Events

_EVENTS = (
    "SELECT e.id, e.name, b.code AS branch, r.name AS room, e.starts_at, e.ends_at, e.min_age, e.max_age, e.fee_cents,"
    " e.status, e.places, g.registered, max(e.places - g.registered, 0) AS places_left, g.waitlisted"
    " FROM events e JOIN rooms r ON r.id = e.room_id JOIN branches b ON b.id = r.branch_id"
    " JOIN (SELECT v.id, coalesce(sum(n.status = 'registered'), 0) AS registered,"
    " coalesce(sum(n.status = 'waitlisted'), 0) AS waitlisted"
    " FROM events v LEFT JOIN registrations n ON n.event_id = v.id GROUP BY v.id) g ON g.id = e.id"
)


def _event(db: sqlite3.Connection, event_id: int) -> dict:
    event = _first(db, f"{_EVENTS} WHERE e.id = ?", event_id)
    if event is None:
        raise LookupError(f"there is no event {event_id}")
    return event


def _coming_event(db: sqlite3.Connection, event_id: int) -> dict:
    event = _event(db, event_id)
    if event["status"] != "scheduled":
        raise RuntimeError(f"event {event_id} is {event['status']}")
    if event["starts_at"] <= datetime.now().isoformat(timespec="minutes"):
        raise RuntimeError(f"event {event_id} began at {event['starts_at']}")
    return event


def search_events(
    db: sqlite3.Connection,
    query: str = "",
    branch: Branch | None = None,
    first_day: str | None = None,
    last_day: str | None = None,
    age: int | None = None,
    limit: int = 20,
) -> list[dict]:
    """Find events with their places, in order of time; past and cancelled ones are included.

    Args:
        query: Part of the event's name; case does not matter.
        branch: Only events at this branch.
        first_day: Not before this day, YYYY-MM-DD.
        last_day: Not after this day, YYYY-MM-DD.
        age: Only events open to people of this age.
        limit: At most this many events, 1 to 50.
    """
    return _rows(
        db,
        f"{_EVENTS} WHERE instr(lower(e.name), lower(:query)) > 0 AND (:branch IS NULL OR b.code = :branch)"
        " AND date(e.starts_at) BETWEEN :first_day AND :last_day"
        " AND (:age IS NULL OR :age BETWEEN e.min_age AND coalesce(e.max_age, :age))"
        " ORDER BY e.starts_at, e.id LIMIT :limit",
        query=query,
        branch=branch,
        first_day="0000-01-01" if first_day is None else _day("first_day", first_day).isoformat(),
        last_day="9999-12-31" if last_day is None else _day("last_day", last_day).isoformat(),
        age=age,
        limit=_limit(limit),
    )


def get_event(db: sqlite3.Connection, event_id: int) -> dict:
    """Show an event with its registrations in the order they were made, which is also that of the waiting list.

    Args:
        event_id: The event's id.
    """
    event = _event(db, event_id)
    event["registrations"] = _rows(
        db,
        "SELECT n.id, n.member_id, m.full_name AS member, n.status, n.registered_at FROM registrations n"
        " JOIN members m ON m.id = n.member_id WHERE n.event_id = ? ORDER BY n.registered_at, n.id LIMIT 100",
        event_id,
    )
    return event


def register_for_event(db: sqlite3.Connection, event_id: int, member_id: int) -> dict:
    """Register a member for an event; a full event puts the member on the waiting list. A fee becomes an open charge.

    Args:
        event_id: The event's id.
        member_id: The member's id.
    """
    member = _valid_member(db, member_id)
    event = _coming_event(db, event_id)
    age = _age(member["birth_date"], event["starts_at"])
    if age < event["min_age"] or (event["max_age"] is not None and age > event["max_age"]):
        raise PermissionError(f"event {event_id} is not for a person aged {age}")
    clash = _first(
        db,
        "SELECT e.id, e.name FROM registrations n JOIN events e ON e.id = n.event_id"
        " WHERE n.member_id = ? AND e.id <> ? AND n.status = 'registered' AND e.status = 'scheduled'"
        " AND e.starts_at < ? AND e.ends_at > ? ORDER BY e.id",
        member_id,
        event_id,
        event["ends_at"],
        event["starts_at"],
    )
    if clash is not None:
        raise RuntimeError(f"{member['full_name']} goes to event {clash['id']} ({clash['name']}) at that time")
    status = "registered" if event["places_left"] else "waitlisted"
    registration_id = db.execute(
        "INSERT INTO registrations (event_id, member_id, status) VALUES (?, ?, ?)", (event_id, member_id, status)
    ).lastrowid
    charge = None
    if status == "registered":
        charge = _add_charge(db, member_id, "event", event["fee_cents"], registration_id=registration_id)
    return {"registration": _find(db, "registrations", registration_id), "charge": charge}


def cancel_registration(db: sqlite3.Connection, registration_id: int) -> dict:
    """Cancel a registration for a coming event and the fee if nothing of it was paid; a freed place is passed on.

    Args:
        registration_id: The registration's id.
    """
    registration = _find(db, "registrations", registration_id)
    if registration["status"] == "cancelled":
        raise RuntimeError(f"registration {registration_id} is already cancelled")
    event = _coming_event(db, registration["event_id"])
    db.execute("UPDATE registrations SET status = 'cancelled' WHERE id = ?", (registration_id,))
    db.execute(
        "UPDATE charges SET status = 'cancelled' WHERE registration_id = ? AND status = 'open'"
        " AND NOT EXISTS (SELECT 1 FROM payments p WHERE p.charge_id = charges.id)",
        (registration_id,),
    )
    promoted = None
    if registration["status"] == "registered":
        promoted = _first(
            db,
            "SELECT id, member_id FROM registrations WHERE event_id = ? AND status = 'waitlisted'"
            " ORDER BY registered_at, id LIMIT 1",
            event["id"],
        )
    if promoted is not None:
        db.execute("UPDATE registrations SET status = 'registered' WHERE id = ?", (promoted["id"],))
        _add_charge(db, promoted["member_id"], "event", event["fee_cents"], registration_id=promoted["id"])
    return {
        "registration": _find(db, "registrations", registration_id),
        "promoted": None if promoted is None else _find(db, "registrations", promoted["id"]),
    }


def move_event(db: sqlite3.Connection, event_id: int, room_id: int, starts_at: str | None = None) -> dict:
    """Move a coming event to another room, another time or both; its length stays the same.

    Args:
        event_id: The event's id.
        room_id: The room to use; it must seat all places of the event.
        starts_at: The new start, YYYY-MM-DDTHH:MM; omitted keeps the present one.
    """
    event = _coming_event(db, event_id)
    room = _find(db, "rooms", room_id)
    if room["capacity"] < event["places"]:
        raise ValueError(f"{room['name']} seats {room['capacity']} people, the event has {event['places']} places")
    start = _moment("starts_at", event["starts_at"] if starts_at is None else starts_at)
    length = datetime.fromisoformat(event["ends_at"]) - datetime.fromisoformat(event["starts_at"])
    begins, ends = start.isoformat(timespec="minutes"), (start + length).isoformat(timespec="minutes")
    _check_slot(db, room, begins, ends, event_id)
    db.execute(
        "UPDATE events SET room_id = ?, starts_at = ?, ends_at = ? WHERE id = ?", (room_id, begins, ends, event_id)
    )
    return _event(db, event_id)


# Acquisitions


def list_suggestions(
    db: sqlite3.Connection,
    status: Literal["new", "approved", "rejected"] | None = None,
    query: str = "",
    limit: int = 20,
) -> list[dict]:
    """List what members suggested the library should buy, the oldest first.

    Args:
        status: Only suggestions with this status.
        query: Part of the suggestion's text; case does not matter.
        limit: At most this many suggestions, 1 to 50.
    """
    return _rows(
        db,
        "SELECT s.id, s.member_id, m.full_name AS member, s.wanted, s.title_id, s.suggested_on, s.status, s.reply"
        " FROM suggestions s JOIN members m ON m.id = s.member_id WHERE (:status IS NULL OR s.status = :status)"
        " AND instr(lower(s.wanted), lower(:query)) > 0 ORDER BY s.suggested_on, s.id LIMIT :limit",
        status=status,
        query=query,
        limit=_limit(limit),
    )


def decide_suggestion(
    db: sqlite3.Connection, suggestion_id: int, decision: Literal["approved", "rejected"], reply: str
) -> dict:
    """Approve or reject a new suggestion. This orders nothing.

    Args:
        suggestion_id: The suggestion's id.
        decision: What was decided.
        reply: The reply to the member.
    """
    suggestion = _find(db, "suggestions", suggestion_id)
    if suggestion["status"] != "new":
        raise RuntimeError(f"suggestion {suggestion_id} is already {suggestion['status']}")
    db.execute(
        "UPDATE suggestions SET status = ?, reply = ?, decided_by = ? WHERE id = ?",
        (decision, _text("reply", reply, 300), _USER_ID, suggestion_id),
    )
    return _find(db, "suggestions", suggestion_id)


def list_budgets(db: sqlite3.Connection, year: int | None = None) -> list[dict]:
    """List the budgets for acquisitions with what open and received orders have used and what remains, in cents.

    Args:
        year: Only budgets of this year.
    """
    budgets = _rows(
        db,
        "SELECT u.id, u.code, u.name, u.year, u.allotted_cents, coalesce((SELECT sum(l.copies * l.price_cents)"
        " FROM orders o JOIN order_lines l ON l.order_id = o.id"
        " WHERE o.budget_id = u.id AND o.status <> 'cancelled'), 0) AS used_cents FROM budgets u"
        " WHERE :year IS NULL OR u.year = :year ORDER BY u.year, u.id",
        year=year,
    )
    return [{**budget, "remaining_cents": budget["allotted_cents"] - budget["used_cents"]} for budget in budgets]


def place_order(
    db: sqlite3.Connection, supplier_code: str, budget_code: str, branch: Branch, lines: list[OrderLine]
) -> dict:
    """Order copies from a supplier at the prices on offer and pay them from one budget of this year.

    Args:
        supplier_code: The supplier's code.
        budget_code: The budget's code; enough must remain in it.
        branch: The branch the copies are for.
        lines: What to order, each title once.
    """
    supplier = _find(db, "suppliers", supplier_code, "code")
    budget = _find(db, "budgets", budget_code, "code")
    if not supplier["is_active"]:
        raise RuntimeError(f"{supplier['name']} is no longer an active supplier")
    if budget["year"] != date.today().year:
        raise RuntimeError(f"budget {budget['code']} is for {budget['year']}")
    if not 1 <= len(lines) <= 20 or len({line["title_id"] for line in lines}) < len(lines):
        raise ValueError("an order has 1 to 20 lines, each for another title")
    order_id = db.execute(
        "INSERT INTO orders (supplier_id, budget_id, branch_id, ordered_on, ordered_by) VALUES (?, ?, ?, ?, ?)",
        (supplier["id"], budget["id"], _branch_id(db, branch), _today(), _USER_ID),
    ).lastrowid
    for line in lines:
        title = _find(db, "titles", line["title_id"])
        offer = _first(db, "SELECT * FROM offers WHERE supplier_id = ? AND title_id = ?", supplier["id"], title["id"])
        if offer is None:
            raise LookupError(f"{supplier['name']} does not offer {title['name']}")
        if not 1 <= line["copies"] <= 100:
            raise ValueError("copies must be between 1 and 100")
        db.execute(
            "INSERT INTO order_lines (order_id, title_id, copies, price_cents) VALUES (?, ?, ?, ?)",
            (order_id, title["id"], line["copies"], offer["price_cents"]),
        )
    remaining = next(row["remaining_cents"] for row in list_budgets(db) if row["id"] == budget["id"])
    if remaining < 0:
        raise RuntimeError(f"the order exceeds what remains in budget {budget['code']} by {-remaining} cents")
    ordered = _rows(
        db,
        "SELECT l.title_id, t.name AS title, l.copies, l.price_cents FROM order_lines l"
        " JOIN titles t ON t.id = l.title_id WHERE l.order_id = ? ORDER BY l.title_id",
        order_id,
    )
    return {
        "id": order_id,
        "supplier": supplier["name"],
        "branch": branch,
        "lines": ordered,
        "total_cents": sum(line["copies"] * line["price_cents"] for line in ordered),
        "budget_remaining_cents": remaining,
    }
