CREATE TABLE users (
    id INTEGER PRIMARY KEY,
    full_name TEXT NOT NULL,
    email TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL,
    is_reviewer INTEGER NOT NULL DEFAULT 0 CHECK (is_reviewer IN (0, 1))
);

CREATE TABLE people (
    id INTEGER PRIMARY KEY,
    full_name TEXT NOT NULL,
    email TEXT NOT NULL UNIQUE,
    country TEXT NOT NULL
);

CREATE TABLE sections (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    max_films INTEGER NOT NULL CHECK (max_films > 0),
    fee_cents INTEGER NOT NULL CHECK (fee_cents >= 0)
);

CREATE TABLE films (
    id INTEGER PRIMARY KEY,
    title TEXT NOT NULL,
    director_id INTEGER NOT NULL REFERENCES people (id),
    country TEXT NOT NULL,
    runtime_minutes INTEGER NOT NULL CHECK (runtime_minutes BETWEEN 1 AND 400),
    premiere TEXT NOT NULL DEFAULT 'none' CHECK (premiere IN ('world', 'international', 'national', 'none'))
);

CREATE TABLE submissions (
    id INTEGER PRIMARY KEY,
    film_id INTEGER NOT NULL REFERENCES films (id),
    section_id INTEGER NOT NULL REFERENCES sections (id),
    submitted_on TEXT NOT NULL CHECK (submitted_on IS date(submitted_on, '+0 days')),
    fee_cents INTEGER NOT NULL CHECK (fee_cents >= 0),
    status TEXT NOT NULL DEFAULT 'in_review' CHECK (status IN ('in_review', 'selected', 'waitlisted', 'rejected', 'withdrawn')),
    decided_on TEXT CHECK (decided_on IS date(decided_on, '+0 days')),
    withdrawn_on TEXT CHECK (withdrawn_on IS date(withdrawn_on, '+0 days')),
    UNIQUE (film_id, section_id),
    CHECK ((status = 'withdrawn') = (withdrawn_on IS NOT NULL)),
    CHECK (status = 'withdrawn' OR (status = 'in_review') = (decided_on IS NULL)),
    CHECK (decided_on IS NULL OR decided_on >= submitted_on)
);

CREATE TABLE fee_payments (
    id INTEGER PRIMARY KEY,
    submission_id INTEGER NOT NULL REFERENCES submissions (id),
    kind TEXT NOT NULL CHECK (kind IN ('payment', 'refund')),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    recorded_on TEXT NOT NULL CHECK (recorded_on IS date(recorded_on, '+0 days'))
);

CREATE TABLE reviews (
    id INTEGER PRIMARY KEY,
    submission_id INTEGER NOT NULL REFERENCES submissions (id),
    user_id INTEGER NOT NULL REFERENCES users (id),
    due_on TEXT NOT NULL CHECK (due_on IS date(due_on, '+0 days')),
    score INTEGER CHECK (score BETWEEN 0 AND 100),
    UNIQUE (submission_id, user_id)
);

CREATE TABLE conflicts (
    user_id INTEGER NOT NULL REFERENCES users (id),
    film_id INTEGER NOT NULL REFERENCES films (id),
    reason TEXT NOT NULL,
    PRIMARY KEY (user_id, film_id)
);

CREATE TABLE venues (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    address TEXT NOT NULL
);

CREATE TABLE halls (
    id INTEGER PRIMARY KEY,
    venue_id INTEGER NOT NULL REFERENCES venues (id),
    name TEXT NOT NULL UNIQUE,
    seats INTEGER NOT NULL CHECK (seats > 0)
);

CREATE TABLE screenings (
    id INTEGER PRIMARY KEY,
    film_id INTEGER NOT NULL REFERENCES films (id),
    hall_id INTEGER NOT NULL REFERENCES halls (id),
    starts_at TEXT NOT NULL CHECK (starts_at IS strftime('%Y-%m-%dT%H:%M', starts_at, '+0 days')),
    has_qa INTEGER NOT NULL DEFAULT 0 CHECK (has_qa IN (0, 1)),
    price_cents INTEGER NOT NULL CHECK (price_cents >= 0),
    status TEXT NOT NULL DEFAULT 'scheduled' CHECK (status IN ('scheduled', 'cancelled'))
);

CREATE TABLE ticket_orders (
    id INTEGER PRIMARY KEY,
    screening_id INTEGER NOT NULL REFERENCES screenings (id),
    buyer_name TEXT NOT NULL,
    buyer_email TEXT NOT NULL,
    quantity INTEGER NOT NULL CHECK (quantity BETWEEN 1 AND 100),
    discount_percent INTEGER NOT NULL DEFAULT 0 CHECK (discount_percent BETWEEN 0 AND 100),
    total_cents INTEGER NOT NULL CHECK (total_cents >= 0),
    ordered_on TEXT NOT NULL CHECK (ordered_on IS date(ordered_on, '+0 days')),
    status TEXT NOT NULL DEFAULT 'paid' CHECK (status IN ('paid', 'refunded')),
    refunded_on TEXT CHECK (refunded_on IS date(refunded_on, '+0 days')),
    CHECK ((status = 'refunded') = (refunded_on IS NOT NULL))
);

CREATE TABLE guests (
    id INTEGER PRIMARY KEY,
    person_id INTEGER NOT NULL REFERENCES people (id),
    category TEXT NOT NULL CHECK (category IN ('director', 'cast', 'crew', 'juror', 'press')),
    film_id INTEGER REFERENCES films (id),
    arrives_on TEXT NOT NULL CHECK (arrives_on IS date(arrives_on, '+0 days')),
    leaves_on TEXT NOT NULL CHECK (leaves_on IS date(leaves_on, '+0 days')),
    status TEXT NOT NULL DEFAULT 'invited' CHECK (status IN ('invited', 'confirmed', 'declined')),
    CHECK (arrives_on < leaves_on),
    CHECK ((category IN ('director', 'cast', 'crew')) = (film_id IS NOT NULL))
);

CREATE TABLE screening_guests (
    screening_id INTEGER NOT NULL REFERENCES screenings (id),
    guest_id INTEGER NOT NULL REFERENCES guests (id),
    PRIMARY KEY (screening_id, guest_id)
);

CREATE TABLE hotels (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    rate_cents INTEGER NOT NULL CHECK (rate_cents > 0),
    rooms INTEGER NOT NULL CHECK (rooms > 0),
    distance_metres INTEGER NOT NULL CHECK (distance_metres >= 0)
);

CREATE TABLE room_bookings (
    id INTEGER PRIMARY KEY,
    guest_id INTEGER NOT NULL REFERENCES guests (id),
    hotel_id INTEGER NOT NULL REFERENCES hotels (id),
    check_in_on TEXT NOT NULL CHECK (check_in_on IS date(check_in_on, '+0 days')),
    check_out_on TEXT NOT NULL CHECK (check_out_on IS date(check_out_on, '+0 days')),
    rate_cents INTEGER NOT NULL CHECK (rate_cents > 0),
    festival_nights INTEGER NOT NULL CHECK (festival_nights >= 0),
    status TEXT NOT NULL DEFAULT 'booked' CHECK (status IN ('booked', 'cancelled')),
    CHECK (check_in_on < check_out_on),
    CHECK (festival_nights <= julianday(check_out_on) - julianday(check_in_on))
);

CREATE INDEX submissions_by_section ON submissions (section_id, status);

CREATE INDEX fee_payments_by_submission ON fee_payments (submission_id);

CREATE INDEX reviews_by_user ON reviews (user_id);

CREATE INDEX screenings_by_hall ON screenings (hall_id, starts_at);

CREATE INDEX screenings_by_film ON screenings (film_id);

CREATE INDEX ticket_orders_by_screening ON ticket_orders (screening_id);

CREATE INDEX guests_by_film ON guests (film_id);

CREATE INDEX room_bookings_by_hotel ON room_bookings (hotel_id, check_in_on);
