"""Tools of the front desk of a language school."""
from datetime import date, datetime
from typing import Literal


_COURSE = "SELECT * FROM course_places"


_ENROLMENT = "SELECT * FROM enrolment_accounts"


_STUDENT = "SELECT * FROM students"


_TEACHER = "SELECT * FROM teachers"


_ABSENCE = "SELECT * FROM teacher_absences"


_PAYMENT = """SELECT p.*, e.student_id, e.student_name, e.course_id, e.course_code, c.language_id FROM payments p
    JOIN enrolment_accounts e ON e.id = p.enrolment_id JOIN courses c ON c.id = e.course_id"""


_TEST = """SELECT t.*, s.full_name AS student_name, g.name AS language, v.code AS level FROM placement_tests t
    JOIN students s ON s.id = t.student_id JOIN languages g ON g.id = t.language_id
    JOIN levels v ON v.id = t.level_id"""


_WAITING = """SELECT w.*, s.full_name AS student_name, c.code AS course_code FROM waiting_list_entries w
    JOIN students s ON s.id = w.student_id JOIN courses c ON c.id = w.course_id"""


_LESSON = """SELECT l.*, c.code AS course_code, t.full_name AS teacher_name, r.name AS room_name FROM lessons l
    JOIN courses c ON c.id = l.course_id JOIN teachers t ON t.id = l.teacher_id JOIN rooms r ON r.id = l.room_id"""


_QUALIFIED = """SELECT t.* FROM teachers t WHERE (?1 IS NULL AND ?2 IS NULL) OR EXISTS (
    SELECT 1 FROM teacher_qualifications q JOIN levels v ON v.id = q.level_id
    WHERE q.teacher_id = t.id AND (?1 IS NULL OR q.language_id = ?1)
        AND (?2 IS NULL OR v.rank >= (SELECT rank FROM levels WHERE id = ?2))) ORDER BY full_name, id"""


def _rows(db, sql, *values):
    return [dict(row) for row in db.execute(sql, values)]


def _one(db, what, sql, key):
    found = _rows(db, f"SELECT * FROM ({sql}) WHERE id = ?", key)
    if not found:
        raise LookupError(f"there is no {what} {key}; search for it first")
    return found[0]


def _all(db, sql, order, filters):
    kept = {left: value for left, value in filters.items() if value is not None}
    where = "".join(f" AND {left} ?" for left in kept)
    return _rows(db, f"SELECT * FROM ({sql}) WHERE 1{where} ORDER BY {order}, id", *kept.values())


def _first(rows, limit, query="", *columns):
    if not 1 <= limit <= 100:
        raise ValueError("limit must be 1 to 100")
    needle = query.casefold()
    return [row for row in rows if not needle or any(needle in row[c].casefold() for c in columns)][:limit]


def _day(text, first_year=2000):
    if text is None:
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise ValueError("not a day, YYYY-MM-DD") from None
    if day.isoformat() != text or not first_year <= day.year <= 2099:
        raise ValueError(f"not a day, YYYY-MM-DD, from {first_year} to 2099")
    return text


def _today():
    return date.today().isoformat()


def _text(what, text, least, most):
    text = text.strip()
    if not least <= len(text) <= most or not text.isprintable():
        raise ValueError(f"{what} must have {least} to {most} printable characters")
    return text


def _email(db, text, student_id):
    text = _text("email", text, 3, 100)
    if text.count("@") != 1 or text.strip("@") != text or len(text.split()) != 1:
        raise ValueError("email is no address like name@place.example")
    if _rows(db, "SELECT 1 FROM students WHERE lower(email) = lower(?) AND id <> ?", text, student_id):
        raise RuntimeError("another student has this e-mail address; is it the same person?")
    return text


def _insert(db, table, values):
    names = ", ".join(values)
    marks = ", ".join("?" for _ in values)
    return db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", (*values.values(),)).lastrowid


def _waits(db, student_id, course_id):
    return _all(db, _WAITING, "id", {"student_id =": student_id, "course_id =": course_id, "status =": "waiting"})


def _waiting(db, entry_id):
    entry = _one(db, "waiting list entry", _WAITING, entry_id)
    if entry["status"] != "waiting":
        raise RuntimeError(f"the entry is {entry['status']}, not waiting")
    return entry


def _course_ahead(db, student_id, course_id):
    course = _one(db, "course", _COURSE, course_id)
    if course["status"] != "scheduled" or course["starts_on"] <= _today():
        raise RuntimeError(f"course {course['code']} is cancelled or does not start after today")
    if _all(db, _ENROLMENT, "id", {"student_id =": student_id, "course_id =": course_id, "status =": "active"}):
        raise RuntimeError(f"the student has an active enrolment in {course['code']} already")
    return course


def _enrol(db, student_id, course, percent):
    if course["free_places"] < 1:
        raise RuntimeError(f"course {course['code']} has no free place; the waiting list is open")
    tests = _all(db, _TEST, "taken_on DESC", {"student_id =": student_id, "language_id =": course["language_id"]})
    if not tests or tests[0]["level_id"] != course["level_id"]:
        raise PermissionError(f"the newest {course['language']} test is not at {course['level']}, or there is none")
    age = (date.fromisoformat(course["starts_on"]) - date.fromisoformat(tests[0]["taken_on"])).days
    if age > 180:
        raise PermissionError(f"the newest test will be {age} days old when the course starts; 180 are allowed")
    values = {"student_id": student_id, "course_id": course["id"], "discount_percent": percent}
    values |= {"fee_cents": course["list_fee_cents"] * (100 - percent) // 100, "enrolled_on": _today()}
    return _one(db, "enrolment", _ENROLMENT, _insert(db, "enrolments", values))


def _pay(db, enrolment_id, kind, method, cents):
    values = {"enrolment_id": enrolment_id, "kind": kind, "method": method, "amount_cents": cents, "paid_on": _today()}
    return _insert(db, "payments", values | {"user_id": 1})


def _lesson_ahead(lesson):
    if lesson["status"] != "scheduled" or lesson["starts_at"] <= datetime.now().strftime("%Y-%m-%dT%H:%M"):
        raise RuntimeError(f"the lesson is {lesson['status']} or has begun; only lessons to come can be changed")


def _is_taken(db, lesson, column, key):
    overlap = {"starts_at <": lesson["ends_at"], "ends_at >": lesson["starts_at"]}
    return _all(db, _LESSON, "id", {column: key, "id <>": lesson["id"], "status <>": "cancelled", **overlap})


def list_languages(db):
    """List the languages that the school teaches, in the order of their names."""
    return _all(db, "SELECT * FROM languages", "name", {})


def list_levels(db):
    """List the levels of language, the lowest first."""
    return _all(db, "SELECT * FROM levels", "rank", {})


def search_students(db, query: str = "", limit: int = 50):
    """Find students by name or e-mail, in the order of their names.

    Args:
        query: Part of the full name or e-mail address; case does not matter. Empty: every student.
        limit: Most rows to return, 1 to 100.
    """
    return _first(_all(db, _STUDENT, "full_name", {}), limit, query, "full_name", "email")


def get_student(db, student_id: int):
    """Show a student with all placement tests and enrolments, the newest of each first, and all waiting list
    entries, the earliest first.

    Args:
        student_id: Id of the student.
    """
    of = {"student_id =": student_id}
    return _one(db, "student", _STUDENT, student_id) | {
        "placement_tests": _all(db, _TEST, "taken_on DESC", of),
        "enrolments": _all(db, _ENROLMENT, "enrolled_on DESC, id DESC", of),
        "waiting_list_entries": _all(db, _WAITING, "joined_on", of),
    }


def list_placement_tests(
    db,
    student_id: int | None = None,
    language_id: int | None = None,
    level_id: int | None = None,
    taken_from: str | None = None,
    taken_to: str | None = None,
    limit: int = 50,
):
    """List placement tests, the newest first.

    Args:
        student_id: Only tests of this student.
        language_id: Only tests in this language.
        level_id: Only tests that gave this level.
        taken_from: Only tests taken on or after this day, YYYY-MM-DD.
        taken_to: Only tests taken on or before this day, YYYY-MM-DD.
        limit: Most rows to return, 1 to 100.
    """
    filters = {"student_id =": student_id, "language_id =": language_id, "level_id =": level_id}
    filters |= {"taken_on >=": _day(taken_from), "taken_on <=": _day(taken_to)}
    return _first(_all(db, _TEST, "taken_on DESC", filters), limit)


def search_courses(
    db,
    query: str = "",
    language_id: int | None = None,
    level_id: int | None = None,
    status: Literal["scheduled", "cancelled"] | None = None,
    starts_from: str | None = None,
    starts_to: str | None = None,
    only_free: bool = False,
    limit: int = 50,
):
    """Find courses, the one that starts first at the top. Only active enrolments take up a place.

    Args:
        query: Part of the code; case does not matter. Empty: every course.
        language_id: Only courses in this language.
        level_id: Only courses of this level.
        status: Only courses of this status; a scheduled one takes place, took place or will.
        starts_from: Only courses that start on or after this day, YYYY-MM-DD.
        starts_to: Only courses that start on or before this day, YYYY-MM-DD.
        only_free: True: only courses with at least one free place.
        limit: Most rows to return, 1 to 100.
    """
    filters = {"language_id =": language_id, "level_id =": level_id, "status =": status}
    filters |= {"starts_on >=": _day(starts_from), "starts_on <=": _day(starts_to), "free_places >=": only_free or None}
    return _first(_all(db, _COURSE, "starts_on", filters), limit, query, "code")


def get_course(db, course_id: int):
    """Show a course with its enrolments and its waiting list, both with the earliest first.

    Args:
        course_id: Id of the course.
    """
    of = {"course_id =": course_id}
    return _one(db, "course", _COURSE, course_id) | {
        "enrolments": _all(db, _ENROLMENT, "enrolled_on", of),
        "waiting_list_entries": _all(db, _WAITING, "joined_on", of),
    }


def list_enrolments(
    db,
    student_id: int | None = None,
    course_id: int | None = None,
    status: Literal["active", "completed", "cancelled"] | None = None,
    only_owing: bool = False,
    limit: int = 50,
):
    """List enrolments, the earliest first, with what was paid for each (less refunds) and what is still owed;
    a cancelled one owes nothing.

    Args:
        student_id: Only enrolments of this student.
        course_id: Only enrolments in this course.
        status: Only enrolments of this status.
        only_owing: True: only enrolments for which something is still owed.
        limit: Most rows to return, 1 to 100.
    """
    filters = {"student_id =": student_id, "course_id =": course_id, "status =": status}
    return _first(_all(db, _ENROLMENT, "enrolled_on", filters | {"owed_cents >=": only_owing or None}), limit)


def get_enrolment(db, enrolment_id: int):
    """Show an enrolment with its payments and refunds, the earliest first.

    Args:
        enrolment_id: Id of the enrolment.
    """
    payments = _all(db, _PAYMENT, "paid_on", {"enrolment_id =": enrolment_id})
    return _one(db, "enrolment", _ENROLMENT, enrolment_id) | {"payments": payments}


def list_payments(
    db,
    course_id: int | None = None,
    language_id: int | None = None,
    kind: Literal["payment", "refund"] | None = None,
    method: Literal["card", "cash", "transfer"] | None = None,
    paid_from: str | None = None,
    paid_to: str | None = None,
    limit: int = 50,
):
    """List payments and refunds, the earliest first.

    Args:
        course_id: Only those for this course.
        language_id: Only those for courses in this language.
        kind: Only payments, or only refunds.
        method: Only those made by this method.
        paid_from: Only those made on or after this day, YYYY-MM-DD.
        paid_to: Only those made on or before this day, YYYY-MM-DD.
        limit: Most rows to return, 1 to 100.
    """
    filters = {"course_id =": course_id, "language_id =": language_id, "kind =": kind, "method =": method}
    filters |= {"paid_on >=": _day(paid_from), "paid_on <=": _day(paid_to)}
    return _first(_all(db, _PAYMENT, "paid_on", filters), limit)


def list_waiting_list(
    db,
    course_id: int | None = None,
    student_id: int | None = None,
    status: Literal["waiting", "placed", "withdrawn"] | None = None,
    limit: int = 50,
):
    """List entries of the waiting lists, the one that joined first at the top; of equals, the lower id.

    Args:
        course_id: Only entries for this course.
        student_id: Only entries of this student.
        status: Only entries of this status.
        limit: Most rows to return, 1 to 100.
    """
    filters = {"course_id =": course_id, "student_id =": student_id, "status =": status}
    return _first(_all(db, _WAITING, "joined_on", filters), limit)


def search_teachers(
    db,
    query: str = "",
    language_id: int | None = None,
    level_id: int | None = None,
    status: Literal["active", "on_leave", "left"] | None = None,
    limit: int = 50,
):
    """Find teachers by name and by what they may teach, in the order of their names.

    Args:
        query: Part of the full name; case does not matter. Empty: every teacher.
        language_id: Only teachers who are qualified for this language.
        level_id: Only teachers who are qualified up to at least this level (in the given language, or in any
            if none is given).
        status: Only teachers of this status.
        limit: Most rows to return, 1 to 100.
    """
    rows = [t for t in _rows(db, _QUALIFIED, language_id, level_id) if status in (None, t["status"])]
    return _first(rows, limit, query, "full_name")


def get_teacher(db, teacher_id: int):
    """Show a teacher with the languages and the highest level in each that he or she may teach, and all
    absences, the latest first.

    Args:
        teacher_id: Id of the teacher.
    """
    qualifications = """SELECT q.language_id, g.name AS language, q.level_id, v.code AS level
        FROM teacher_qualifications q JOIN languages g ON g.id = q.language_id JOIN levels v ON v.id = q.level_id
        WHERE q.teacher_id = ? ORDER BY g.name, g.id"""
    return _one(db, "teacher", _TEACHER, teacher_id) | {
        "qualifications": _rows(db, qualifications, teacher_id),
        "absences": _all(db, _ABSENCE, "starts_on DESC", {"teacher_id =": teacher_id}),
    }


def list_lessons(
    db,
    course_id: int | None = None,
    teacher_id: int | None = None,
    room_id: int | None = None,
    status: Literal["scheduled", "held", "cancelled"] | None = None,
    starts_from: str | None = None,
    starts_to: str | None = None,
    limit: int = 50,
):
    """List lessons, the earliest first. The teacher is the one who gives the lesson, which need not be the
    one who leads the course.

    Args:
        course_id: Only lessons of this course.
        teacher_id: Only lessons given by this teacher.
        room_id: Only lessons in this room.
        status: Only lessons of this status.
        starts_from: Only lessons on or after this day, YYYY-MM-DD.
        starts_to: Only lessons on or before this day, YYYY-MM-DD.
        limit: Most rows to return, 1 to 100.
    """
    filters = {"course_id =": course_id, "teacher_id =": teacher_id, "room_id =": room_id, "status =": status}
    filters |= {"date(starts_at) >=": _day(starts_from), "date(starts_at) <=": _day(starts_to)}
    return _first(_all(db, _LESSON, "starts_at", filters), limit)


def search_rooms(
    db,
    query: str = "",
    min_seats: int | None = None,
    only_in_service: bool = False,
    limit: int = 50,
):
    """Find rooms, the one with the fewest seats first; of equals, in the order of their names.

    Args:
        query: Part of the name; case does not matter. Empty: every room.
        min_seats: Only rooms with at least this many seats.
        only_in_service: True: only rooms that can be used.
        limit: Most rows to return, 1 to 100.
    """
    filters = {"seats >=": min_seats, "is_in_service =": only_in_service or None}
    return _first(_all(db, "SELECT * FROM rooms", "seats, name", filters), limit, query, "name")


def register_student(db, full_name: str, email: str, born_on: str, phone: str = ""):
    """Register a new student, with today as the day of registration.

    Args:
        full_name: Full name, 1 to 100 characters.
        email: E-mail address, at most 100 characters, not yet used by another student.
        born_on: Day of birth, YYYY-MM-DD, from 1900 on and before today.
        phone: Telephone number, at most 30 characters; may be empty.
    """
    if _day(born_on, 1900) >= _today():
        raise ValueError("born_on must be before today")
    values = {"full_name": _text("full_name", full_name, 1, 100), "email": _email(db, email, 0)}
    values |= {"phone": _text("phone", phone, 0, 30), "born_on": born_on, "registered_on": _today()}
    return _one(db, "student", _STUDENT, _insert(db, "students", values))


def update_student(db, student_id: int, email: str | None = None, phone: str | None = None):
    """Change a student's e-mail address, telephone number or both; what is null stays as it is.

    Args:
        student_id: Id of the student.
        email: New e-mail address, at most 100 characters, not used by another student.
        phone: New telephone number, at most 30 characters; empty removes it.
    """
    student = _one(db, "student", _STUDENT, student_id)
    if email is None and phone is None:
        raise ValueError("nothing to change: give email, phone or both")
    phone = student["phone"] if phone is None else _text("phone", phone, 0, 30)
    email = student["email"] if email is None else _email(db, email, student_id)
    db.execute("UPDATE students SET email = ?, phone = ? WHERE id = ?", (email, phone, student_id))
    return _one(db, "student", _STUDENT, student_id)


def record_placement_test(db, student_id: int, language_id: int, level_id: int, taken_on: str):
    """Record the result of a placement test that a student took.

    Args:
        student_id: Id of the student.
        language_id: Id of the language.
        level_id: Id of the level that was reached.
        taken_on: Day of the test, YYYY-MM-DD, not in the future.
    """
    _one(db, "student", _STUDENT, student_id)
    _one(db, "language", "SELECT * FROM languages", language_id)
    _one(db, "level", "SELECT * FROM levels", level_id)
    if _day(taken_on) > _today():
        raise ValueError("taken_on must not be in the future")
    if _all(db, _TEST, "id", {"student_id =": student_id, "language_id =": language_id, "taken_on =": taken_on}):
        raise RuntimeError("a test of the student in that language on that day is recorded already")
    values = {"student_id": student_id, "language_id": language_id, "level_id": level_id, "taken_on": taken_on}
    return _one(db, "test", _TEST, _insert(db, "placement_tests", values))


def enrol_student(db, student_id: int, course_id: int, discount_percent: Literal[0, 10, 15, 20]):
    """Enrol a student in a course that starts after today, as of today. The fee is the list fee less the
    discount, rounded down to whole cents; the discount is taken as given.

    Args:
        student_id: Id of the student.
        course_id: Id of the course.
        discount_percent: Discount off the list fee in percent, by the rules.
    """
    _one(db, "student", _STUDENT, student_id)
    course = _course_ahead(db, student_id, course_id)
    if _waits(db, student_id, course_id):
        raise RuntimeError("the student is on the waiting list of this course: use place_from_waiting_list")
    return _enrol(db, student_id, course, discount_percent)


def cancel_enrolment(db, enrolment_id: int, refund_cents: int):
    """Cancel an active enrolment as of today; its place becomes free, and nobody moves up by this. A refund
    above 0 is booked today by the method of the latest payment for it.

    Args:
        enrolment_id: Id of the enrolment.
        refund_cents: Refund in cents, by the rules; 0 or more, at most what was paid less earlier refunds.
    """
    enrolment = _one(db, "enrolment", _ENROLMENT, enrolment_id)
    if enrolment["status"] != "active":
        raise RuntimeError(f"the enrolment is {enrolment['status']}, not active")
    if not 0 <= refund_cents <= enrolment["paid_cents"]:
        raise ValueError(f"refund_cents must be 0 to {enrolment['paid_cents']}, which is what was paid")
    sql = "UPDATE enrolments SET status = 'cancelled', cancelled_on = ? WHERE id = ?"
    db.execute(sql, (_today(), enrolment_id))
    if refund_cents:
        paid = _all(db, _PAYMENT, "paid_on DESC, id DESC", {"enrolment_id =": enrolment_id, "kind =": "payment"})
        _pay(db, enrolment_id, "refund", paid[0]["method"], refund_cents)
    return _one(db, "enrolment", _ENROLMENT, enrolment_id)


def record_payment(db, enrolment_id: int, amount_cents: int, method: Literal["card", "cash", "transfer"]):
    """Record a payment of today for an active or completed enrolment.

    Args:
        enrolment_id: Id of the enrolment.
        amount_cents: Amount in cents; at least 1, at most what is still owed for the enrolment.
        method: How it was paid.
    """
    enrolment = _one(db, "enrolment", _ENROLMENT, enrolment_id)
    if enrolment["status"] == "cancelled":
        raise RuntimeError("the enrolment is cancelled: nothing is owed for it")
    if not 1 <= amount_cents <= enrolment["owed_cents"]:
        raise ValueError(f"amount_cents must be 1 or more and at most {enrolment['owed_cents']}, which is owed")
    return _one(db, "payment", _PAYMENT, _pay(db, enrolment_id, "payment", method, amount_cents))


def join_waiting_list(db, student_id: int, course_id: int):
    """Put a student on the waiting list of a full course that starts after today, as of today. No placement
    test is asked for yet.

    Args:
        student_id: Id of the student.
        course_id: Id of the course.
    """
    _one(db, "student", _STUDENT, student_id)
    course = _course_ahead(db, student_id, course_id)
    if course["free_places"] > 0:
        raise RuntimeError(f"course {course['code']} has a free place: enrol the student instead")
    if _waits(db, student_id, course_id):
        raise RuntimeError("the student is on this waiting list already")
    values = {"student_id": student_id, "course_id": course_id, "joined_on": _today()}
    return _one(db, "entry", _WAITING, _insert(db, "waiting_list_entries", values))


def withdraw_from_waiting_list(db, waiting_list_entry_id: int):
    """Take a student off a waiting list without giving a place.

    Args:
        waiting_list_entry_id: Id of the waiting list entry.
    """
    _waiting(db, waiting_list_entry_id)
    db.execute("UPDATE waiting_list_entries SET status = 'withdrawn' WHERE id = ?", (waiting_list_entry_id,))
    return _one(db, "entry", _WAITING, waiting_list_entry_id)


def place_from_waiting_list(db, waiting_list_entry_id: int, discount_percent: Literal[0, 10, 15, 20]):
    """Give a free place of a course to a waiting student: the entry becomes placed, and the student is
    enrolled as of today at the list fee less the discount, rounded down to whole cents. Whose turn it is and
    which discount applies is taken as given.

    Args:
        waiting_list_entry_id: Id of the waiting list entry.
        discount_percent: Discount off the list fee in percent, by the rules.
    """
    entry = _waiting(db, waiting_list_entry_id)
    course = _course_ahead(db, entry["student_id"], entry["course_id"])
    enrolment = _enrol(db, entry["student_id"], course, discount_percent)
    db.execute("UPDATE waiting_list_entries SET status = 'placed' WHERE id = ?", (waiting_list_entry_id,))
    return enrolment


def record_absence(db, teacher_id: int, starts_on: str, ends_on: str, reason: str = ""):
    """Enter an absence of an active teacher; lessons on these days keep their teacher until each gets a
    substitute.

    Args:
        teacher_id: Id of the teacher.
        starts_on: First day of the absence, YYYY-MM-DD, today or later.
        ends_on: Last day of the absence, YYYY-MM-DD, on or after the first.
        reason: Reason, at most 200 characters; may be empty.
    """
    teacher = _one(db, "teacher", _TEACHER, teacher_id)
    if not _today() <= _day(starts_on) <= _day(ends_on):
        raise ValueError("starts_on must be today or later, and ends_on not before it")
    values = {"teacher_id": teacher_id, "starts_on": starts_on, "ends_on": ends_on}
    values |= {"reason": _text("reason", reason, 0, 200), "user_id": 1}
    if teacher["status"] != "active":
        raise RuntimeError(f"the teacher is {teacher['status']}, not active")
    if _all(db, _ABSENCE, "id", {"teacher_id =": teacher_id, "starts_on <=": ends_on, "ends_on >=": starts_on}):
        raise RuntimeError("an absence of the teacher on one of these days is entered already")
    return _one(db, "absence", _ABSENCE, _insert(db, "teacher_absences", values))


def assign_substitute(db, lesson_id: int, teacher_id: int):
    """Let another teacher give a scheduled lesson that has not begun; who leads the course stays. Lessons
    that only touch do not overlap.

    Args:
        lesson_id: Id of the lesson.
        teacher_id: Id of the teacher who is to give it.
    """
    lesson = _one(db, "lesson", _LESSON, lesson_id)
    teacher = _one(db, "teacher", _TEACHER, teacher_id)
    course = _one(db, "course", _COURSE, lesson["course_id"])
    name, day = teacher["full_name"], lesson["starts_at"][:10]
    _lesson_ahead(lesson)
    if lesson["teacher_id"] == teacher_id or teacher["status"] != "active":
        raise RuntimeError(f"{name} gives this lesson already or is not active")
    if teacher not in _rows(db, _QUALIFIED, course["language_id"], course["level_id"]):
        raise PermissionError(f"{name} is not qualified for {course['language']} up to {course['level']}")
    if _all(db, _ABSENCE, "id", {"teacher_id =": teacher_id, "starts_on <=": day, "ends_on >=": day}):
        raise RuntimeError(f"{name} is absent on that day")
    if _is_taken(db, lesson, "teacher_id =", teacher_id):
        raise RuntimeError(f"{name} gives another lesson at that time")
    db.execute("UPDATE lessons SET teacher_id = ? WHERE id = ?", (teacher_id, lesson_id))
    return _one(db, "lesson", _LESSON, lesson_id)


def move_lesson(db, lesson_id: int, room_id: int):
    """Move a scheduled lesson that has not begun to another room, at the same time. Lessons that only touch
    do not overlap.

    Args:
        lesson_id: Id of the lesson.
        room_id: Id of the new room.
    """
    lesson = _one(db, "lesson", _LESSON, lesson_id)
    room = _one(db, "room", "SELECT * FROM rooms", room_id)
    course = _one(db, "course", _COURSE, lesson["course_id"])
    needed = course["places"] - course["free_places"] + 1
    _lesson_ahead(lesson)
    if lesson["room_id"] == room_id or not room["is_in_service"]:
        raise RuntimeError(f"the lesson is in {room['name']} already, or the room is out of service")
    if room["seats"] < needed:
        raise RuntimeError(f"{room['name']} has {room['seats']} seats; {needed} are needed")
    if _is_taken(db, lesson, "room_id =", room_id):
        raise RuntimeError(f"{room['name']} is taken at that time")
    db.execute("UPDATE lessons SET room_id = ? WHERE id = ?", (room_id, lesson_id))
    return _one(db, "lesson", _LESSON, lesson_id)


def cancel_lesson(db, lesson_id: int):
    """Call off one scheduled lesson that has not begun; it is not made up for.

    Args:
        lesson_id: Id of the lesson.
    """
    _lesson_ahead(_one(db, "lesson", _LESSON, lesson_id))
    db.execute("UPDATE lessons SET status = 'cancelled' WHERE id = ?", (lesson_id,))
    return _one(db, "lesson", _LESSON, lesson_id)
