"""Tools of the office of a film festival."""
import re
from datetime import date, datetime, timedelta
from typing import Literal


_SUBMISSIONS = """SELECT s.id, s.film_id, f.title, p.full_name AS director, s.section_id, c.name AS section,
    s.submitted_on, s.fee_cents, s.status, s.decided_on, s.withdrawn_on FROM submissions s
    JOIN films f ON f.id = s.film_id JOIN people p ON p.id = f.director_id JOIN sections c ON c.id = s.section_id """


_SCREENINGS = """SELECT s.id, s.film_id, f.title, f.runtime_minutes, s.hall_id, h.name AS hall, s.starts_at, s.has_qa,
    s.price_cents, s.status, (SELECT COALESCE(SUM(quantity), 0) FROM ticket_orders
    WHERE screening_id = s.id AND status = 'paid') AS tickets_sold
    FROM screenings s JOIN films f ON f.id = s.film_id JOIN halls h ON h.id = s.hall_id """


def _rows(db, sql, *values):
    return [dict(row) for row in db.execute(sql, values)]


def _some(db, limit, sql, *values):
    if not 1 <= limit <= 100:
        raise ValueError("limit is outside 1 to 100")
    return _rows(db, f"{sql} LIMIT {limit}", *values)


def _one(db, table, key):
    found = _rows(db, f"SELECT * FROM {table} WHERE id = ?", key)
    if not found:
        raise LookupError(f"{table} has no id {key}; search for it")
    return found[0]


def _count(db, what, *values):
    return db.execute(f"SELECT {what}", values).fetchone()[0]


def _add(db, table, **row):
    sql = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"
    return _one(db, table, db.execute(sql, [*row.values()]).lastrowid)


def _set(db, table, key, **row):
    sql = f"UPDATE {table} SET {', '.join(f'{name} = ?' for name in row)} WHERE id = ?"
    db.execute(sql, [*row.values(), key])
    return _one(db, table, key)


def _refuse(is_wrong, message):
    if is_wrong:
        raise RuntimeError(message)


def _in_range(name, value, least, most):
    if not least <= value <= most:
        raise ValueError(f"{name} is outside {least} to {most}")


def _today():
    return date.today().isoformat()


def _day(text):
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise ValueError("not a day, YYYY-MM-DD") from None
    if day.isoformat() != text or not 2000 <= day.year <= 2099:
        raise ValueError("not a day, YYYY-MM-DD, from 2000 to 2099")
    return day


def _coming(text):
    if _day(text) < date.today():
        raise ValueError("the day is in the past")


def _nights(check_in_on, check_out_on):
    first = _day(check_in_on)
    count = (_day(check_out_on) - first).days
    _in_range("the number of nights", count, 1, 30)
    return [(first + timedelta(days=n)).isoformat() for n in range(count)]


def _free_rooms(db, hotel, night):
    sql = """COUNT(*) FROM room_bookings
        WHERE hotel_id = ?1 AND status = 'booked' AND check_in_on <= ?2 AND check_out_on > ?2"""
    return hotel["rooms"] - _count(db, sql, hotel["id"], night)


def _span(starts_at, runtime_minutes, has_qa):
    begin = datetime.fromisoformat(starts_at)
    return begin, begin + timedelta(minutes=runtime_minutes + (25 if has_qa else 0))


def search_films(
    db,
    query: str = "",
    premiere: Literal["world", "international", "national", "none"] | None = None,
    limit: int = 50,
):
    """Find films by title or director, in the order of their titles.

    Args:
        query: Part of the title or the director's name; case does not matter. Empty: all.
        premiere: Only films of this premiere status.
        limit: Most rows to return, 1 to 100.
    """
    sql = """SELECT f.id, f.title, f.director_id, p.full_name AS director, f.country, f.runtime_minutes, f.premiere
        FROM films f JOIN people p ON p.id = f.director_id
        WHERE instr(lower(f.title || char(10) || p.full_name), lower(?1)) > 0 AND (?2 IS NULL OR f.premiere = ?2)
        ORDER BY f.title, f.id"""
    return _some(db, limit, sql, query, premiere)


def search_people(db, query: str = "", limit: int = 50):
    """Find filmmakers and others who may be invited, in the order of their names.

    Args:
        query: Part of the full name or e-mail address; case does not matter. Empty: all.
        limit: Most rows to return, 1 to 100.
    """
    sql = """SELECT * FROM people WHERE instr(lower(full_name || char(10) || email), lower(?)) > 0
        ORDER BY full_name, id"""
    return _some(db, limit, sql, query)


def list_sections(db):
    """All sections in the order of their ids, with their places (max_films) and how many submissions are
    selected now."""
    sql = """SELECT *, (SELECT COUNT(*) FROM submissions WHERE section_id = c.id AND status = 'selected')
        AS selected_count FROM sections c ORDER BY id"""
    return _rows(db, sql)


def search_submissions(
    db,
    query: str = "",
    section_id: int | None = None,
    status: Literal["in_review", "selected", "waitlisted", "rejected", "withdrawn"] | None = None,
    limit: int = 50,
):
    """Find submissions by film title or director, in the order of their ids.

    Args:
        query: Part of the film's title or the director's name; case does not matter. Empty: all.
        section_id: Only submissions to this section.
        status: Only submissions of this status.
        limit: Most rows to return, 1 to 100.
    """
    sql = """WHERE instr(lower(f.title || char(10) || p.full_name), lower(?1)) > 0
        AND (?2 IS NULL OR s.section_id = ?2) AND (?3 IS NULL OR s.status = ?3) ORDER BY s.id"""
    return _some(db, limit, _SUBMISSIONS + sql, query, section_id, status)


def get_submission(db, submission_id: int):
    """One submission with its fee payments and refunds, and all its reviews; those without a score are open.
    Conflicts are not marked here.

    Args:
        submission_id: Id of the submission.
    """
    _one(db, "submissions", submission_id)
    [found] = _rows(db, _SUBMISSIONS + "WHERE s.id = ?", submission_id)
    sql = "SELECT id, kind, amount_cents, recorded_on FROM fee_payments WHERE submission_id = ? ORDER BY id"
    found["payments"] = _rows(db, sql, submission_id)
    sql = """SELECT r.id, r.user_id, u.full_name AS reviewer, r.due_on, r.score FROM reviews r
        JOIN users u ON u.id = r.user_id WHERE r.submission_id = ? ORDER BY r.id"""
    found["reviews"] = _rows(db, sql, submission_id)
    return found


def list_reviewers(db):
    """All members of the staff who review, in the order of their ids, each with the number of open reviews
    (no score yet, submission in review)."""
    sql = """SELECT u.id, u.full_name, u.role, (SELECT COUNT(*) FROM reviews r JOIN submissions s
        ON s.id = r.submission_id WHERE r.user_id = u.id AND r.score IS NULL AND s.status = 'in_review')
        AS open_reviews FROM users u WHERE u.is_reviewer = 1 ORDER BY u.id"""
    return _rows(db, sql)


def list_conflicts(db, user_id: int | None = None, film_id: int | None = None):
    """Declared conflicts of interest between staff and films, in the order of user and film.

    Args:
        user_id: Only conflicts of this member of the staff.
        film_id: Only conflicts with this film.
    """
    sql = """SELECT c.user_id, u.full_name, c.film_id, f.title, c.reason FROM conflicts c
        JOIN users u ON u.id = c.user_id JOIN films f ON f.id = c.film_id
        WHERE (?1 IS NULL OR c.user_id = ?1) AND (?2 IS NULL OR c.film_id = ?2) ORDER BY c.user_id, c.film_id"""
    return _rows(db, sql, user_id, film_id)


def list_halls(db, min_seats: int | None = None):
    """The halls with their venues, in the order of their ids.

    Args:
        min_seats: Only halls with at least this many seats.
    """
    sql = """SELECT h.id, h.name, h.seats, h.venue_id, v.name AS venue, v.address FROM halls h
        JOIN venues v ON v.id = h.venue_id WHERE ?1 IS NULL OR h.seats >= ?1 ORDER BY h.id"""
    return _rows(db, sql, min_seats)


def list_screenings(
    db,
    film_id: int | None = None,
    hall_id: int | None = None,
    day: str | None = None,
    status: Literal["scheduled", "cancelled"] | None = None,
    limit: int = 50,
):
    """Screenings in the order of their starts, with the tickets sold in paid orders.

    Args:
        film_id: Only screenings of this film.
        hall_id: Only screenings in this hall.
        day: Only screenings that start on this day, YYYY-MM-DD.
        status: Only screenings of this status.
        limit: Most rows to return, 1 to 100.
    """
    if day is not None:
        _day(day)
    sql = """WHERE (?1 IS NULL OR s.film_id = ?1) AND (?2 IS NULL OR s.hall_id = ?2)
        AND (?3 IS NULL OR date(s.starts_at) = ?3) AND (?4 IS NULL OR s.status = ?4) ORDER BY s.starts_at, s.id"""
    return _some(db, limit, _SCREENINGS + sql, film_id, hall_id, day, status)


def get_screening(db, screening_id: int):
    """One screening with its film's premiere status, its hall's seats and the guests on its Q&A.

    Args:
        screening_id: Id of the screening.
    """
    stored = _one(db, "screenings", screening_id)
    [found] = _rows(db, _SCREENINGS + "WHERE s.id = ?", screening_id)
    found["premiere"] = _one(db, "films", stored["film_id"])["premiere"]
    found["seats"] = _one(db, "halls", stored["hall_id"])["seats"]
    sql = """SELECT g.id AS guest_id, p.full_name, g.category FROM screening_guests s JOIN guests g ON g.id = s.guest_id
        JOIN people p ON p.id = g.person_id WHERE s.screening_id = ? ORDER BY g.id"""
    found["qa_guests"] = _rows(db, sql, screening_id)
    return found


def search_ticket_orders(
    db,
    query: str = "",
    screening_id: int | None = None,
    status: Literal["paid", "refunded"] | None = None,
    limit: int = 50,
):
    """Find ticket orders by buyer, in the order of their ids.

    Args:
        query: Part of the buyer's name or e-mail address; case does not matter. Empty: all.
        screening_id: Only orders for this screening.
        status: Only orders of this status.
        limit: Most rows to return, 1 to 100.
    """
    sql = """SELECT * FROM ticket_orders WHERE instr(lower(buyer_name || char(10) || buyer_email), lower(?1)) > 0
        AND (?2 IS NULL OR screening_id = ?2) AND (?3 IS NULL OR status = ?3) ORDER BY id"""
    return _some(db, limit, sql, query, screening_id, status)


def search_guests(
    db,
    query: str = "",
    category: Literal["director", "cast", "crew", "juror", "press"] | None = None,
    film_id: int | None = None,
    status: Literal["invited", "confirmed", "declined"] | None = None,
    limit: int = 50,
):
    """Find guests by name, in the order of their ids.

    Args:
        query: Part of the guest's full name; case does not matter. Empty: all.
        category: Only guests of this category.
        film_id: Only guests of this film.
        status: Only guests of this status.
        limit: Most rows to return, 1 to 100.
    """
    sql = """SELECT g.id, g.person_id, p.full_name, g.category, g.film_id, f.title, g.arrives_on, g.leaves_on, g.status
        FROM guests g JOIN people p ON p.id = g.person_id LEFT JOIN films f ON f.id = g.film_id
        WHERE instr(lower(p.full_name), lower(?1)) > 0 AND (?2 IS NULL OR g.category = ?2)
        AND (?3 IS NULL OR g.film_id = ?3) AND (?4 IS NULL OR g.status = ?4) ORDER BY g.id"""
    return _some(db, limit, sql, query, category, film_id, status)


def list_hotels(db):
    """The festival's hotels in the order of their names, with nightly rate, rooms held and distance to the
    festival centre."""
    return _rows(db, "SELECT * FROM hotels ORDER BY name, id")


def check_hotel_rooms(db, hotel_id: int, check_in_on: str, check_out_on: str):
    """The free rooms of one hotel on each night of a stay.

    Args:
        hotel_id: Id of the hotel.
        check_in_on: Day of arrival, YYYY-MM-DD.
        check_out_on: Day of departure, YYYY-MM-DD, 1 to 30 nights after check_in_on.
    """
    hotel = _one(db, "hotels", hotel_id)
    nights = _nights(check_in_on, check_out_on)
    free = [{"night_on": night, "free_rooms": _free_rooms(db, hotel, night)} for night in nights]
    return {"hotel_id": hotel_id, "hotel": hotel["name"], "nights": free}


def search_room_bookings(
    db,
    query: str = "",
    hotel_id: int | None = None,
    category: Literal["director", "cast", "crew", "juror", "press"] | None = None,
    status: Literal["booked", "cancelled"] | None = None,
    limit: int = 50,
):
    """Find room bookings by guest, in the order of their ids.

    Args:
        query: Part of the guest's full name; case does not matter. Empty: all.
        hotel_id: Only bookings in this hotel.
        category: Only bookings of guests of this category.
        status: Only bookings of this status.
        limit: Most rows to return, 1 to 100.
    """
    sql = """SELECT b.id, b.guest_id, p.full_name, g.category, b.hotel_id, h.name AS hotel, b.check_in_on,
        b.check_out_on, b.rate_cents, b.festival_nights, b.status FROM room_bookings b
        JOIN guests g ON g.id = b.guest_id JOIN people p ON p.id = g.person_id JOIN hotels h ON h.id = b.hotel_id
        WHERE instr(lower(p.full_name), lower(?1)) > 0 AND (?2 IS NULL OR b.hotel_id = ?2)
        AND (?3 IS NULL OR g.category = ?3) AND (?4 IS NULL OR b.status = ?4) ORDER BY b.id"""
    return _some(db, limit, sql, query, hotel_id, category, status)


def assign_review(db, submission_id: int, user_id: int, due_on: str):
    """Assign a further review of a submission in review. Whose turn it is and when it is due is for the
    caller to work out.

    Args:
        submission_id: Id of the submission.
        user_id: Id of the reviewer.
        due_on: A day, YYYY-MM-DD, today or later.
    """
    submission, user = _one(db, "submissions", submission_id), _one(db, "users", user_id)
    _coming(due_on)
    if not user["is_reviewer"]:
        raise PermissionError("the user is no reviewer; see list_reviewers")
    if _rows(db, "SELECT 1 FROM conflicts WHERE user_id = ? AND film_id = ?", user_id, submission["film_id"]):
        raise PermissionError("the reviewer has a conflict with the film; choose another")
    _refuse(submission["status"] != "in_review", "the submission is not in review")
    same = _rows(db, "SELECT 1 FROM reviews WHERE submission_id = ? AND user_id = ?", submission_id, user_id)
    _refuse(same, "the reviewer has a review of this submission; choose another")
    return _add(db, "reviews", submission_id=submission_id, user_id=user_id, due_on=due_on)


def record_review(db, review_id: int, score: int):
    """Record the score of an open review.

    Args:
        review_id: Id of the review.
        score: Points, 0 to 100.
    """
    review = _one(db, "reviews", review_id)
    _in_range("score", score, 0, 100)
    _refuse(review["score"] is not None, "the review has a score already")
    submission = _one(db, "submissions", review["submission_id"])
    _refuse(submission["status"] != "in_review", "the submission is not in review")
    return _set(db, "reviews", review_id, score=score)


def decide_submission(db, submission_id: int, decision: Literal["selected", "waitlisted", "rejected"]):
    """Decide on a submission today, or anew on a waitlisted one. Which decision the counting reviews call for
    is for the caller to work out.

    Args:
        submission_id: Id of the submission.
        decision: The decision.
    """
    submission = _one(db, "submissions", submission_id)
    status, section_id = submission["status"], submission["section_id"]
    _refuse(status not in ("in_review", "waitlisted") or status == decision, f"the submission is {status} already")
    finished = _count(db, "COUNT(score) FROM reviews WHERE submission_id = ?", submission_id)
    _refuse(finished < 3, "the submission has fewer than three finished reviews")
    if decision == "selected":
        taken = _count(db, "COUNT(*) FROM submissions WHERE section_id = ? AND status = 'selected'", section_id)
        _refuse(taken >= _one(db, "sections", section_id)["max_films"], "the section has no free place")
    return _set(db, "submissions", submission_id, status=decision, decided_on=_today())


def withdraw_submission(db, submission_id: int, refund_cents: int):
    """Withdraw a submission today; a refund of its fee is recorded if it is not 0. Screenings and other
    submissions stay as they are.

    Args:
        submission_id: Id of the submission.
        refund_cents: What is given back, in cents, at least 0 and at most what was paid.
    """
    status = _one(db, "submissions", submission_id)["status"]
    _refuse(status in ("rejected", "withdrawn"), f"the submission is {status} already")
    paid = "COALESCE(SUM(amount_cents), 0) FROM fee_payments WHERE submission_id = ? AND kind = 'payment'"
    _in_range("refund_cents", refund_cents, 0, _count(db, paid, submission_id))
    if refund_cents:
        row = {"submission_id": submission_id, "amount_cents": refund_cents, "recorded_on": _today()}
        _add(db, "fee_payments", kind="refund", **row)
    return _set(db, "submissions", submission_id, status="withdrawn", withdrawn_on=_today())


def schedule_screening(
    db,
    film_id: int,
    hall_id: int,
    starts_at: str,
    price_cents: int,
    has_qa: bool = False,
):
    """Schedule a screening of a selected film. The 30 minutes between screenings are checked; what premieres
    need is not.

    Args:
        film_id: Id of the film.
        hall_id: Id of the hall.
        starts_at: Start, YYYY-MM-DDTHH:MM, on a day of the festival.
        price_cents: Price of a ticket in cents, 0 to 10000.
        has_qa: Whether a Q&A follows.
    """
    film = _one(db, "films", film_id)
    _one(db, "halls", hall_id)
    if not re.fullmatch(r"2026-06-(2[5-9]|30)T([01][0-9]|2[0-3]):[0-5][0-9]", starts_at):
        raise ValueError("not a time, YYYY-MM-DDTHH:MM, on a day from 2026-06-25 to 2026-06-30")
    _in_range("price_cents", price_cents, 0, 10000)
    selected = _rows(db, "SELECT 1 FROM submissions WHERE film_id = ? AND status = 'selected'", film_id)
    _refuse(not selected, "the film is not selected")
    begin, end = _span(starts_at, film["runtime_minutes"], has_qa)
    pause = timedelta(minutes=30)
    for other in _rows(db, _SCREENINGS + "WHERE s.hall_id = ? AND s.status = 'scheduled' ORDER BY s.id", hall_id):
        first, last = _span(other["starts_at"], other["runtime_minutes"], other["has_qa"])
        is_near = begin < last + pause and first < end + pause
        _refuse(is_near, f"the hall has {other['title']} from {first:%d %B %H:%M} to {last:%H:%M}")
    row = {"film_id": film_id, "hall_id": hall_id, "starts_at": starts_at, "price_cents": price_cents}
    return _add(db, "screenings", has_qa=int(has_qa), **row)


def cancel_screening(db, screening_id: int):
    """Cancel a scheduled screening; its paid ticket orders are refunded in full today.

    Args:
        screening_id: Id of the screening.
    """
    _refuse(_one(db, "screenings", screening_id)["status"] == "cancelled", "the screening is cancelled already")
    sql = "UPDATE ticket_orders SET status = 'refunded', refunded_on = ? WHERE screening_id = ? AND status = 'paid'"
    db.execute(sql, (_today(), screening_id))
    return _set(db, "screenings", screening_id, status="cancelled")


def sell_tickets(
    db,
    screening_id: int,
    buyer_name: str,
    buyer_email: str,
    quantity: int,
    discount_percent: int = 0,
):
    """Sell tickets in one paid order, out of the seats for the public. The total is quantity times price less
    the discount, rounded down to a whole cent.

    Args:
        screening_id: Id of the screening.
        buyer_name: Name of the buyer, 1 to 80 printable characters, not blank.
        buyer_email: E-mail address of the buyer.
        quantity: Number of tickets, 1 to 100.
        discount_percent: Percent off by the rules, 0 to 50.
    """
    screening = get_screening(db, screening_id)
    _in_range("quantity", quantity, 1, 100)
    _in_range("discount_percent", discount_percent, 0, 50)
    if len(buyer_name) > 80 or not buyer_name.isprintable() or not buyer_name.strip():
        raise ValueError("buyer_name must have 1 to 80 printable characters")
    if not re.fullmatch(r"[!-?A-~]{1,60}@[!-?A-~]{3,60}", buyer_email):
        raise ValueError("buyer_email is no e-mail address")
    _refuse(screening["status"] == "cancelled", "the screening is cancelled")
    left = screening["seats"] * 9 // 10 - screening["tickets_sold"]
    _refuse(quantity > left, f"only {left} seats are left for the public")
    row = {"screening_id": screening_id, "buyer_name": buyer_name, "buyer_email": buyer_email, "quantity": quantity}
    total = quantity * screening["price_cents"] * (100 - discount_percent) // 100
    rest = {"discount_percent": discount_percent, "total_cents": total, "ordered_on": _today()}
    return _add(db, "ticket_orders", **row, **rest)


def refund_ticket_order(db, ticket_order_id: int):
    """Refund one paid ticket order in full today; its seats are free again.

    Args:
        ticket_order_id: Id of the ticket order.
    """
    order = _one(db, "ticket_orders", ticket_order_id)
    _refuse(order["status"] == "refunded", "the order is refunded already")
    return _set(db, "ticket_orders", ticket_order_id, status="refunded", refunded_on=_today())


def invite_guest(
    db,
    person_id: int,
    category: Literal["director", "cast", "crew", "juror", "press"],
    arrives_on: str,
    leaves_on: str,
    film_id: int | None = None,
):
    """Invite a person; the status is invited until the answer comes.

    Args:
        person_id: Id of the person.
        category: What the person comes as.
        arrives_on: Day of arrival, YYYY-MM-DD, today or later.
        leaves_on: Day of departure, YYYY-MM-DD, after arrives_on.
        film_id: Id of the film; needed for director, cast and crew, left out for juror and press.
    """
    _one(db, "people", person_id)
    film = None if film_id is None else _one(db, "films", film_id)
    _coming(arrives_on)
    if _day(leaves_on) <= _day(arrives_on):
        raise ValueError("leaves_on must be after arrives_on")
    if (film is None) != (category in ("juror", "press")):
        raise ValueError("directors, cast and crew need a film_id; jurors and press have none")
    if category == "director" and film["director_id"] != person_id:
        raise ValueError("the person is not the director of the film")
    sql = "SELECT 1 FROM guests WHERE person_id = ? AND category = ? AND film_id IS ? AND status <> 'declined'"
    _refuse(_rows(db, sql, person_id, category, film_id), "the person is invited in this role already")
    row = {"person_id": person_id, "category": category, "film_id": film_id}
    return _add(db, "guests", arrives_on=arrives_on, leaves_on=leaves_on, **row)


def answer_invitation(db, guest_id: int, answer: Literal["confirmed", "declined"]):
    """Record a guest's answer. Who declines loses booked rooms and seats on Q&As.

    Args:
        guest_id: Id of the guest.
        answer: The answer.
    """
    status = _one(db, "guests", guest_id)["status"]
    _refuse(status in ("declined", answer), f"the guest has {status} already")
    if answer == "declined":
        db.execute("UPDATE room_bookings SET status = 'cancelled' WHERE guest_id = ?", (guest_id,))
        db.execute("DELETE FROM screening_guests WHERE guest_id = ?", (guest_id,))
    return _set(db, "guests", guest_id, status=answer)


def book_room(db, guest_id: int, hotel_id: int, check_in_on: str, check_out_on: str, festival_nights: int):
    """Book a room within the days of a guest's visit, at the hotel's present rate. Which hotel, and how many
    nights the festival pays, is for the caller to work out.

    Args:
        guest_id: Id of the guest.
        hotel_id: Id of the hotel.
        check_in_on: Day of arrival, YYYY-MM-DD.
        check_out_on: Day of departure, YYYY-MM-DD, 1 to 30 nights after check_in_on.
        festival_nights: Nights that the festival pays, at least 0 and at most those of the stay.
    """
    guest, hotel = _one(db, "guests", guest_id), _one(db, "hotels", hotel_id)
    nights = _nights(check_in_on, check_out_on)
    if check_in_on < guest["arrives_on"] or check_out_on > guest["leaves_on"]:
        raise ValueError(f"the guest stays from {guest['arrives_on']} to {guest['leaves_on']}")
    _in_range("festival_nights", festival_nights, 0, len(nights))
    _refuse(guest["status"] == "declined", "the guest has declined")
    sql = "SELECT 1 FROM room_bookings WHERE guest_id = ? AND status = 'booked' AND check_in_on < ? AND check_out_on > ?"
    _refuse(_rows(db, sql, guest_id, check_out_on, check_in_on), "the guest has a room on some of these nights")
    for night in nights:
        _refuse(_free_rooms(db, hotel, night) < 1, f"{hotel['name']} is full on {night}")
    row = {"check_in_on": check_in_on, "check_out_on": check_out_on, "rate_cents": hotel["rate_cents"]}
    return _add(db, "room_bookings", guest_id=guest_id, hotel_id=hotel_id, festival_nights=festival_nights, **row)


def cancel_room_booking(db, room_booking_id: int):
    """Cancel a room booking; the room is free again.

    Args:
        room_booking_id: Id of the room booking.
    """
    booking = _one(db, "room_bookings", room_booking_id)
    _refuse(booking["status"] == "cancelled", "the booking is cancelled already")
    return _set(db, "room_bookings", room_booking_id, status="cancelled")


def add_qa_guest(db, screening_id: int, guest_id: int):
    """Put a confirmed guest of the film who is in town on that day on the Q&A of a scheduled screening; three
    at most. Who comes first is not checked.

    Args:
        screening_id: Id of the screening.
        guest_id: Id of the guest.
    """
    screening, guest = get_screening(db, screening_id), _one(db, "guests", guest_id)
    if guest["film_id"] != screening["film_id"]:
        raise ValueError("the guest does not belong to the film")
    _refuse(screening["status"] == "cancelled" or not screening["has_qa"], "the screening is cancelled or has no Q&A")
    _refuse(guest["status"] != "confirmed", "the guest has not confirmed")
    is_there = guest["arrives_on"] <= screening["starts_at"][:10] <= guest["leaves_on"]
    _refuse(not is_there, "the guest is not in town on that day")
    seated = [row["guest_id"] for row in screening["qa_guests"]]
    _refuse(guest_id in seated, "the guest is on this Q&A already")
    _refuse(len(seated) >= 3, "three guests are on this Q&A")
    db.execute("INSERT INTO screening_guests (screening_id, guest_id) VALUES (?, ?)", (screening_id, guest_id))
    return get_screening(db, screening_id)
