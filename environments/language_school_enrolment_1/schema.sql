CREATE TABLE users (
    id INTEGER PRIMARY KEY,
    full_name TEXT NOT NULL,
    email TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL CHECK (role IN ('manager', 'desk', 'accounts')),
    is_active INTEGER NOT NULL DEFAULT 1 CHECK (is_active IN (0, 1))
);

CREATE TABLE languages (
    id INTEGER PRIMARY KEY,
    code TEXT NOT NULL UNIQUE CHECK (length(code) = 2),
    name TEXT NOT NULL UNIQUE
);

CREATE TABLE levels (
    id INTEGER PRIMARY KEY,
    code TEXT NOT NULL UNIQUE CHECK (code IN ('A1', 'A2', 'B1', 'B2', 'C1', 'C2')),
    rank INTEGER NOT NULL UNIQUE CHECK (rank BETWEEN 1 AND 6)
);

CREATE TABLE rooms (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    floor INTEGER NOT NULL CHECK (floor BETWEEN 0 AND 9),
    seats INTEGER NOT NULL CHECK (seats > 0),
    is_in_service INTEGER NOT NULL DEFAULT 1 CHECK (is_in_service IN (0, 1))
);

CREATE TABLE teachers (
    id INTEGER PRIMARY KEY,
    full_name TEXT NOT NULL,
    email TEXT NOT NULL UNIQUE,
    status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'on_leave', 'left')),
    hired_on TEXT NOT NULL CHECK (hired_on IS date(hired_on, '+0 days'))
);

CREATE TABLE teacher_qualifications (
    teacher_id INTEGER NOT NULL REFERENCES teachers (id),
    language_id INTEGER NOT NULL REFERENCES languages (id),
    level_id INTEGER NOT NULL REFERENCES levels (id),
    PRIMARY KEY (teacher_id, language_id)
);

CREATE TABLE teacher_absences (
    id INTEGER PRIMARY KEY,
    teacher_id INTEGER NOT NULL REFERENCES teachers (id),
    starts_on TEXT NOT NULL CHECK (starts_on IS date(starts_on, '+0 days')),
    ends_on TEXT NOT NULL CHECK (ends_on IS date(ends_on, '+0 days')),
    reason TEXT NOT NULL DEFAULT '',
    user_id INTEGER NOT NULL DEFAULT 1 REFERENCES users (id),
    CHECK (starts_on <= ends_on)
);

CREATE TABLE students (
    id INTEGER PRIMARY KEY,
    full_name TEXT NOT NULL,
    email TEXT NOT NULL UNIQUE,
    phone TEXT NOT NULL DEFAULT '',
    born_on TEXT NOT NULL CHECK (born_on IS date(born_on, '+0 days')),
    registered_on TEXT NOT NULL CHECK (registered_on IS date(registered_on, '+0 days')),
    CHECK (born_on < registered_on)
);

CREATE TABLE placement_tests (
    id INTEGER PRIMARY KEY,
    student_id INTEGER NOT NULL REFERENCES students (id),
    language_id INTEGER NOT NULL REFERENCES languages (id),
    level_id INTEGER NOT NULL REFERENCES levels (id),
    taken_on TEXT NOT NULL CHECK (taken_on IS date(taken_on, '+0 days')),
    UNIQUE (student_id, language_id, taken_on)
);

CREATE TABLE courses (
    id INTEGER PRIMARY KEY,
    code TEXT NOT NULL UNIQUE,
    language_id INTEGER NOT NULL REFERENCES languages (id),
    level_id INTEGER NOT NULL REFERENCES levels (id),
    teacher_id INTEGER NOT NULL REFERENCES teachers (id),
    starts_on TEXT NOT NULL CHECK (starts_on IS date(starts_on, '+0 days')),
    ends_on TEXT NOT NULL CHECK (ends_on IS date(ends_on, '+0 days')),
    places INTEGER NOT NULL CHECK (places > 0),
    list_fee_cents INTEGER NOT NULL CHECK (list_fee_cents > 0),
    status TEXT NOT NULL DEFAULT 'scheduled' CHECK (status IN ('scheduled', 'cancelled')),
    CHECK (starts_on < ends_on)
);

CREATE TABLE lessons (
    id INTEGER PRIMARY KEY,
    course_id INTEGER NOT NULL REFERENCES courses (id),
    teacher_id INTEGER NOT NULL REFERENCES teachers (id),
    room_id INTEGER NOT NULL REFERENCES rooms (id),
    starts_at TEXT NOT NULL CHECK (starts_at IS strftime('%Y-%m-%dT%H:%M', starts_at, '+0 days')),
    ends_at TEXT NOT NULL CHECK (ends_at IS strftime('%Y-%m-%dT%H:%M', ends_at, '+0 days')),
    status TEXT NOT NULL DEFAULT 'scheduled' CHECK (status IN ('scheduled', 'held', 'cancelled')),
    CHECK (starts_at < ends_at AND substr(starts_at, 1, 10) = substr(ends_at, 1, 10))
);

CREATE TABLE enrolments (
    id INTEGER PRIMARY KEY,
    student_id INTEGER NOT NULL REFERENCES students (id),
    course_id INTEGER NOT NULL REFERENCES courses (id),
    status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'completed', 'cancelled')),
    discount_percent INTEGER NOT NULL DEFAULT 0 CHECK (discount_percent IN (0, 10, 15, 20)),
    fee_cents INTEGER NOT NULL CHECK (fee_cents >= 0),
    enrolled_on TEXT NOT NULL CHECK (enrolled_on IS date(enrolled_on, '+0 days')),
    cancelled_on TEXT CHECK (cancelled_on IS date(cancelled_on, '+0 days')),
    CHECK ((status = 'cancelled') = (cancelled_on IS NOT NULL)),
    CHECK (cancelled_on IS NULL OR cancelled_on >= enrolled_on)
);

CREATE TABLE payments (
    id INTEGER PRIMARY KEY,
    enrolment_id INTEGER NOT NULL REFERENCES enrolments (id),
    kind TEXT NOT NULL DEFAULT 'payment' CHECK (kind IN ('payment', 'refund')),
    method TEXT NOT NULL CHECK (method IN ('card', 'cash', 'transfer')),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    paid_on TEXT NOT NULL CHECK (paid_on IS date(paid_on, '+0 days')),
    user_id INTEGER NOT NULL DEFAULT 1 REFERENCES users (id)
);

CREATE TABLE waiting_list_entries (
    id INTEGER PRIMARY KEY,
    student_id INTEGER NOT NULL REFERENCES students (id),
    course_id INTEGER NOT NULL REFERENCES courses (id),
    status TEXT NOT NULL DEFAULT 'waiting' CHECK (status IN ('waiting', 'placed', 'withdrawn')),
    joined_on TEXT NOT NULL CHECK (joined_on IS date(joined_on, '+0 days'))
);

CREATE INDEX absences_by_teacher ON teacher_absences (teacher_id, starts_on);

CREATE INDEX tests_by_student ON placement_tests (student_id, language_id, taken_on);

CREATE INDEX courses_by_start ON courses (language_id, level_id, starts_on);

CREATE INDEX lessons_by_course ON lessons (course_id, starts_at);

CREATE INDEX lessons_by_teacher ON lessons (teacher_id, starts_at);

CREATE INDEX lessons_by_room ON lessons (room_id, starts_at);

CREATE INDEX enrolments_by_course ON enrolments (course_id, status);

CREATE UNIQUE INDEX one_active_enrolment ON enrolments (student_id, course_id) WHERE status = 'active';

CREATE INDEX payments_by_enrolment ON payments (enrolment_id, paid_on);

CREATE INDEX payments_by_day ON payments (paid_on);

CREATE INDEX waiting_by_course ON waiting_list_entries (course_id, joined_on);

CREATE UNIQUE INDEX one_waiting_entry ON waiting_list_entries (student_id, course_id) WHERE status = 'waiting';

CREATE VIEW enrolment_accounts AS
SELECT
    e.id, e.student_id, s.full_name AS student_name, e.course_id, c.code AS course_code, c.starts_on AS course_starts_on,
    e.status, e.discount_percent, e.fee_cents, e.enrolled_on, e.cancelled_on,
    coalesce(p.paid_cents, 0) AS paid_cents,
    CASE WHEN e.status = 'cancelled' THEN 0 ELSE e.fee_cents - coalesce(p.paid_cents, 0) END AS owed_cents
FROM enrolments e
JOIN students s ON s.id = e.student_id
JOIN courses c ON c.id = e.course_id
LEFT JOIN (
    SELECT enrolment_id, sum(CASE kind WHEN 'payment' THEN amount_cents ELSE -amount_cents END) AS paid_cents
    FROM payments GROUP BY enrolment_id
) p ON p.enrolment_id = e.id;

CREATE VIEW course_places AS
SELECT
    c.id, c.code, c.language_id, g.name AS language, c.level_id, v.code AS level, c.teacher_id,
    t.full_name AS teacher_name, c.starts_on, c.ends_on, c.places, c.places - count(e.id) AS free_places,
    c.list_fee_cents, c.status
FROM courses c
JOIN languages g ON g.id = c.language_id
JOIN levels v ON v.id = c.level_id
JOIN teachers t ON t.id = c.teacher_id
LEFT JOIN enrolments e ON e.course_id = c.id AND e.status = 'active'
GROUP BY c.id;
