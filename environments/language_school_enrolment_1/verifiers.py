_TODAY = "2026-06-01"


def _judge(changes, added=(), changed=()):
    """Compare all changes with the wanted ones: (table, row without id) and (table, id, changed columns)."""
    found_added, found_changed, problems = [], [], []
    for table, rows in changes.items():
        found_added += [(table, {k: v for k, v in row.items() if k != "id"}) for row in rows["added"]]
        for one in rows["changed"]:
            before, after = one["before"], one["after"]
            differs = {k: v for k, v in after.items() if before.get(k) != v}
            found_changed.append((table, after.get("id"), differs))
        problems += [f"removed from {table}: {row}" for row in rows["removed"]]
    for kind, wanted, found in (("new", added, found_added), ("changed", changed, found_changed)):
        rest = list(found)
        for one in wanted:
            if one in rest:
                rest.remove(one)
            else:
                problems.append(f"expected {kind} and not found: {one}")
        problems += [f"{kind} and not expected: {one}" for one in rest]
    return {"problems": problems, "added": [list(a) for a in found_added], "changed": [list(c) for c in found_changed]}


def _id(db, table, column, value):
    row = db.execute(f"SELECT id FROM {table} WHERE {column} = ?", (value,)).fetchone()
    return row["id"] if row else None


def _student(db, name):
    return _id(db, "students", "full_name", name)


def _course(db, code):
    return _id(db, "courses", "code", code)


def _enrolment_id(db, name, code):
    sql = "SELECT id FROM enrolments WHERE student_id = ? AND course_id = ? AND status <> 'cancelled'"
    row = db.execute(sql, (_student(db, name), _course(db, code))).fetchone()
    return row["id"] if row else None


def _enrolment(db, student_id, code, percent, fee_cents):
    return ("enrolments", {
        "student_id": student_id, "course_id": _course(db, code), "status": "active", "discount_percent": percent,
        "fee_cents": fee_cents, "enrolled_on": _TODAY, "cancelled_on": None,
    })


def _payment(enrolment_id, kind, method, cents):
    return ("payments", {
        "enrolment_id": enrolment_id, "kind": kind, "method": method, "amount_cents": cents, "paid_on": _TODAY,
        "user_id": 1,
    })


def _test(db, student_id, language, level, day):
    return ("placement_tests", {
        "student_id": student_id, "language_id": _id(db, "languages", "name", language),
        "level_id": _id(db, "levels", "code", level), "taken_on": day,
    })


def _cancelled(enrolment_id):
    return ("enrolments", enrolment_id, {"status": "cancelled", "cancelled_on": _TODAY})


def _lesson(db, code, starts_at, column, table, name_column, name):
    """The change of a lesson: who gives it, or where."""
    sql = "SELECT id FROM lessons WHERE course_id = ? AND starts_at = ?"
    row = db.execute(sql, (_course(db, code), starts_at)).fetchone()
    return ("lessons", row["id"] if row else None, {column: _id(db, table, name_column, name)})


def signals_free_and_fill_spanish_place(initial, final, changes):
    given_up = _enrolment_id(initial, "Beatriz Salgueiro", "ES-B1-14")
    next_one = _student(initial, "Mateus Carvalhal")
    sql = "SELECT id FROM waiting_list_entries WHERE student_id = ? AND course_id = ? AND status = 'waiting'"
    entry = initial.execute(sql, (next_one, _course(initial, "ES-B1-14"))).fetchone()
    return _judge(
        changes,
        [_payment(given_up, "refund", "transfer", 17437), _enrolment(initial, next_one, "ES-B1-14", 15, 32937)],
        [_cancelled(given_up), ("waiting_list_entries", entry["id"] if entry else None, {"status": "placed"})],
    )


def signals_enrol_wieczorek_in_german(initial, final, changes):
    return _judge(changes, [_enrolment(initial, _student(initial, "Tomasz Wieczorek"), "DE-B1-24", 10, 30195)])


def signals_substitutes_for_aalto(initial, final, changes):
    absence = {
        "teacher_id": _id(initial, "teachers", "full_name", "Henrik Aalto"), "starts_on": "2026-06-04",
        "ends_on": "2026-06-05", "reason": "Flu", "user_id": 1,
    }
    wanted = (
        ("EN-B2-31", "2026-06-04T09:00", "Grace Liddell"),
        ("EN-C1-08", "2026-06-04T18:00", "Oliver Tamm"),
        ("EN-B2-31", "2026-06-05T09:00", "Kwame Mensah"),
        ("EN-B1-30", "2026-06-05T14:00", "Oliver Tamm"),
    )
    lessons = [_lesson(initial, code, at, "teacher_id", "teachers", "full_name", name) for code, at, name in wanted]
    return _judge(changes, [("teacher_absences", absence)], lessons)


def signals_painters_in_kestrel(initial, final, changes):
    wanted = (
        ("FR-A2-09", "2026-06-10T09:00", "Linnet"),
        ("IT-B1-06", "2026-06-10T11:00", "Heron"),
        ("DE-A2-12", "2026-06-10T18:00", "Dunlin"),
    )
    return _judge(changes, (), [_lesson(initial, code, at, "room_id", "rooms", "name", room) for code, at, room in wanted])


def signals_debtors_of_started_courses(initial, final, changes):
    return _judge(changes)


def signals_best_german_course_in_may(initial, final, changes):
    return _judge(changes)


def signals_split_kalogeropoulos_transfer(initial, final, changes):
    parts = (("FR-A1-14", 8550), ("EN-A2-19", 21400), ("JA-A1-04", 10050))
    name = "Dimitrios Kalogeropoulos"
    return _judge(
        changes, [_payment(_enrolment_id(initial, name, code), "payment", "transfer", cents) for code, cents in parts]
    )


def signals_french_b2_for_raghavan(initial, final, changes):
    student = _student(initial, "Priyanka Raghavan")
    entry = {
        "student_id": student, "course_id": _course(initial, "FR-B2-18"), "status": "waiting", "joined_on": _TODAY,
    }
    return _judge(
        changes, [_test(initial, student, "French", "B2", "2026-05-29"), ("waiting_list_entries", entry)]
    )


def signals_register_marek_dvoracek(initial, final, changes):
    person = {
        "full_name": "Marek Dvořáček", "email": "marek.dvoracek@postbus.example", "phone": "555-0187",
        "born_on": "2000-06-29", "registered_on": _TODAY,
    }
    new_id = next((r["id"] for r in changes["students"]["added"] if r["email"] == person["email"]), None)
    enrolments = [r["id"] for r in changes["enrolments"]["added"] if r["student_id"] == new_id]
    return _judge(changes, [
        ("students", person), _test(initial, new_id, "Italian", "A2", _TODAY),
        _enrolment(initial, new_id, "IT-A2-12", 10, 25150),
        _payment(enrolments[0] if enrolments else None, "payment", "card", 25150),
    ])


def signals_holmqvist_drops_one_course(initial, final, changes):
    dropped = _enrolment_id(initial, "Rasmus Holmqvist", "EN-B2-33")
    return _judge(changes, [_payment(dropped, "refund", "card", 19817)], [_cancelled(dropped)])
