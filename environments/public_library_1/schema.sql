CREATE TABLE branches (
    id INTEGER PRIMARY KEY,
    code TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL UNIQUE,
    address TEXT NOT NULL,
    phone TEXT NOT NULL
);

-- weekday 0 is Monday
CREATE TABLE opening_hours (
    branch_id INTEGER NOT NULL REFERENCES branches (id),
    weekday INTEGER NOT NULL CHECK (weekday BETWEEN 0 AND 6),
    opens TEXT NOT NULL CHECK (opens GLOB '[0-2][0-9]:[0-5][0-9]'),
    closes TEXT NOT NULL CHECK (closes GLOB '[0-2][0-9]:[0-5][0-9]'),
    PRIMARY KEY (branch_id, weekday),
    CHECK (opens < closes)
);

CREATE TABLE closures (
    branch_id INTEGER NOT NULL REFERENCES branches (id),
    closed_on TEXT NOT NULL CHECK (closed_on IS date(closed_on)),
    reason TEXT NOT NULL,
    PRIMARY KEY (branch_id, closed_on)
);

CREATE TABLE staff (
    id INTEGER PRIMARY KEY,
    full_name TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('head_librarian', 'librarian', 'desk', 'events', 'acquisitions')),
    branch_id INTEGER NOT NULL REFERENCES branches (id),
    email TEXT NOT NULL UNIQUE,
    is_active INTEGER NOT NULL DEFAULT 1 CHECK (is_active IN (0, 1))
);

CREATE TABLE plans (
    id INTEGER PRIMARY KEY,
    code TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    min_age INTEGER NOT NULL CHECK (min_age >= 0),
    max_age INTEGER CHECK (max_age >= min_age),
    yearly_fee_cents INTEGER NOT NULL CHECK (yearly_fee_cents >= 0),
    loan_days INTEGER NOT NULL CHECK (loan_days > 0),
    max_loans INTEGER NOT NULL CHECK (max_loans > 0),
    max_renewals INTEGER NOT NULL CHECK (max_renewals >= 0),
    max_holds INTEGER NOT NULL CHECK (max_holds >= 0),
    late_cents_per_day INTEGER NOT NULL CHECK (late_cents_per_day >= 0),
    blocked_above_cents INTEGER NOT NULL CHECK (blocked_above_cents >= 0)
);

CREATE TABLE members (
    id INTEGER PRIMARY KEY,
    card_number TEXT NOT NULL UNIQUE,
    full_name TEXT NOT NULL,
    birth_date TEXT NOT NULL CHECK (birth_date IS date(birth_date)),
    email TEXT UNIQUE,
    phone TEXT,
    plan_id INTEGER NOT NULL REFERENCES plans (id),
    home_branch_id INTEGER NOT NULL REFERENCES branches (id),
    joined_on TEXT NOT NULL CHECK (joined_on IS date(joined_on)),
    expires_on TEXT NOT NULL CHECK (expires_on IS date(expires_on)),
    status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'suspended', 'closed'))
);
CREATE INDEX members_by_name ON members (full_name);

CREATE TABLE authors (
    id INTEGER PRIMARY KEY,
    full_name TEXT NOT NULL UNIQUE,
    country TEXT NOT NULL,
    birth_year INTEGER CHECK (birth_year BETWEEN 1800 AND 2020)
);

CREATE TABLE titles (
    id INTEGER PRIMARY KEY,
    isbn TEXT UNIQUE,
    name TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('book', 'audiobook', 'film', 'game')),
    subject TEXT NOT NULL,
    language TEXT NOT NULL,
    published INTEGER NOT NULL CHECK (published BETWEEN 1450 AND 2100),
    min_age INTEGER NOT NULL DEFAULT 0 CHECK (min_age BETWEEN 0 AND 18),
    replacement_cents INTEGER NOT NULL CHECK (replacement_cents > 0)
);
CREATE INDEX titles_by_name ON titles (name);

CREATE TABLE title_authors (
    title_id INTEGER NOT NULL REFERENCES titles (id),
    author_id INTEGER NOT NULL REFERENCES authors (id),
    part TEXT NOT NULL CHECK (part IN ('author', 'illustrator', 'translator', 'narrator', 'director', 'designer')),
    PRIMARY KEY (title_id, author_id, part)
);
CREATE INDEX title_authors_by_author ON title_authors (author_id);

CREATE TABLE copies (
    id INTEGER PRIMARY KEY,
    barcode TEXT NOT NULL UNIQUE,
    title_id INTEGER NOT NULL REFERENCES titles (id),
    branch_id INTEGER NOT NULL REFERENCES branches (id),
    is_reference INTEGER NOT NULL DEFAULT 0 CHECK (is_reference IN (0, 1)),
    status TEXT NOT NULL DEFAULT 'available'
        CHECK (status IN ('available', 'on_loan', 'on_hold_shelf', 'in_transit', 'in_repair', 'lost', 'withdrawn'))
);
CREATE INDEX copies_by_title ON copies (title_id, status);
CREATE INDEX copies_by_branch ON copies (branch_id);

CREATE TABLE loans (
    id INTEGER PRIMARY KEY,
    copy_id INTEGER NOT NULL REFERENCES copies (id),
    member_id INTEGER NOT NULL REFERENCES members (id),
    loaned_on TEXT NOT NULL CHECK (loaned_on IS date(loaned_on)),
    due_on TEXT NOT NULL CHECK (due_on IS date(due_on)),
    renewals INTEGER NOT NULL DEFAULT 0 CHECK (renewals >= 0),
    status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'returned', 'lost')),
    closed_on TEXT CHECK (closed_on IS date(closed_on)),
    CHECK (due_on >= loaned_on),
    CHECK ((status = 'open') = (closed_on IS NULL))
);
CREATE UNIQUE INDEX one_open_loan_per_copy ON loans (copy_id) WHERE status = 'open';
CREATE INDEX loans_by_member ON loans (member_id, status);

CREATE TABLE holds (
    id INTEGER PRIMARY KEY,
    title_id INTEGER NOT NULL REFERENCES titles (id),
    member_id INTEGER NOT NULL REFERENCES members (id),
    pickup_branch_id INTEGER NOT NULL REFERENCES branches (id),
    status TEXT NOT NULL DEFAULT 'waiting'
        CHECK (status IN ('waiting', 'in_transit', 'ready', 'collected', 'cancelled', 'expired')),
    copy_id INTEGER REFERENCES copies (id),
    ready_until TEXT CHECK (ready_until IS date(ready_until)),
    placed_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    CHECK (status <> 'waiting' OR copy_id IS NULL),
    CHECK (status NOT IN ('in_transit', 'ready', 'collected') OR copy_id IS NOT NULL),
    CHECK (status <> 'ready' OR ready_until IS NOT NULL)
);
CREATE UNIQUE INDEX one_live_hold_per_title ON holds (title_id, member_id)
    WHERE status IN ('waiting', 'in_transit', 'ready');
CREATE INDEX holds_queue ON holds (title_id, status, placed_at);

CREATE TABLE transfers (
    id INTEGER PRIMARY KEY,
    copy_id INTEGER NOT NULL REFERENCES copies (id),
    from_branch_id INTEGER NOT NULL REFERENCES branches (id),
    to_branch_id INTEGER NOT NULL REFERENCES branches (id),
    hold_id INTEGER REFERENCES holds (id),
    sent_on TEXT NOT NULL CHECK (sent_on IS date(sent_on)),
    received_on TEXT CHECK (received_on IS date(received_on)),
    status TEXT NOT NULL DEFAULT 'in_transit' CHECK (status IN ('in_transit', 'received')),
    CHECK (from_branch_id <> to_branch_id),
    CHECK ((status = 'received') = (received_on IS NOT NULL))
);
CREATE UNIQUE INDEX one_transfer_per_copy ON transfers (copy_id) WHERE status = 'in_transit';

CREATE TABLE rooms (
    id INTEGER PRIMARY KEY,
    branch_id INTEGER NOT NULL REFERENCES branches (id),
    name TEXT NOT NULL,
    capacity INTEGER NOT NULL CHECK (capacity > 0),
    has_projector INTEGER NOT NULL DEFAULT 0 CHECK (has_projector IN (0, 1)),
    UNIQUE (branch_id, name)
);

CREATE TABLE room_bookings (
    id INTEGER PRIMARY KEY,
    room_id INTEGER NOT NULL REFERENCES rooms (id),
    member_id INTEGER NOT NULL REFERENCES members (id),
    starts_at TEXT NOT NULL CHECK (starts_at IS strftime('%Y-%m-%dT%H:%M', starts_at)),
    ends_at TEXT NOT NULL CHECK (ends_at IS strftime('%Y-%m-%dT%H:%M', ends_at)),
    attendees INTEGER NOT NULL CHECK (attendees > 0),
    purpose TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'confirmed' CHECK (status IN ('confirmed', 'cancelled')),
    CHECK (starts_at < ends_at)
);
CREATE INDEX room_bookings_by_room ON room_bookings (room_id, starts_at);

CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    room_id INTEGER NOT NULL REFERENCES rooms (id),
    organiser_id INTEGER NOT NULL REFERENCES staff (id),
    starts_at TEXT NOT NULL CHECK (starts_at IS strftime('%Y-%m-%dT%H:%M', starts_at)),
    ends_at TEXT NOT NULL CHECK (ends_at IS strftime('%Y-%m-%dT%H:%M', ends_at)),
    min_age INTEGER NOT NULL DEFAULT 0 CHECK (min_age >= 0),
    max_age INTEGER CHECK (max_age >= min_age),
    places INTEGER NOT NULL CHECK (places > 0),
    fee_cents INTEGER NOT NULL DEFAULT 0 CHECK (fee_cents >= 0),
    status TEXT NOT NULL DEFAULT 'scheduled' CHECK (status IN ('scheduled', 'completed', 'cancelled')),
    CHECK (starts_at < ends_at)
);
CREATE INDEX events_by_room ON events (room_id, starts_at);

CREATE TABLE registrations (
    id INTEGER PRIMARY KEY,
    event_id INTEGER NOT NULL REFERENCES events (id),
    member_id INTEGER NOT NULL REFERENCES members (id),
    status TEXT NOT NULL CHECK (status IN ('registered', 'waitlisted', 'cancelled')),
    registered_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE UNIQUE INDEX one_live_registration ON registrations (event_id, member_id) WHERE status <> 'cancelled';
CREATE INDEX registrations_by_member ON registrations (member_id);

CREATE TABLE charges (
    id INTEGER PRIMARY KEY,
    member_id INTEGER NOT NULL REFERENCES members (id),
    kind TEXT NOT NULL CHECK (kind IN ('late', 'lost', 'damage', 'membership', 'event')),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    loan_id INTEGER REFERENCES loans (id),
    registration_id INTEGER REFERENCES registrations (id),
    raised_on TEXT NOT NULL CHECK (raised_on IS date(raised_on)),
    status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'paid', 'waived', 'cancelled')),
    waived_on TEXT CHECK (waived_on IS date(waived_on)),
    waive_reason TEXT,
    CHECK ((status = 'waived') = (waived_on IS NOT NULL)),
    CHECK ((kind = 'event') = (registration_id IS NOT NULL))
);
CREATE INDEX charges_by_member ON charges (member_id, status);

CREATE TABLE payments (
    id INTEGER PRIMARY KEY,
    charge_id INTEGER NOT NULL REFERENCES charges (id),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    method TEXT NOT NULL CHECK (method IN ('cash', 'card', 'online')),
    paid_on TEXT NOT NULL CHECK (paid_on IS date(paid_on)),
    taken_by INTEGER REFERENCES staff (id)
);
CREATE INDEX payments_by_charge ON payments (charge_id);

CREATE TABLE suppliers (
    id INTEGER PRIMARY KEY,
    code TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    delivery_days INTEGER NOT NULL CHECK (delivery_days > 0),
    is_active INTEGER NOT NULL DEFAULT 1 CHECK (is_active IN (0, 1))
);

CREATE TABLE offers (
    supplier_id INTEGER NOT NULL REFERENCES suppliers (id),
    title_id INTEGER NOT NULL REFERENCES titles (id),
    price_cents INTEGER NOT NULL CHECK (price_cents > 0),
    PRIMARY KEY (supplier_id, title_id)
);

CREATE TABLE budgets (
    id INTEGER PRIMARY KEY,
    code TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    year INTEGER NOT NULL,
    allotted_cents INTEGER NOT NULL CHECK (allotted_cents >= 0)
);

CREATE TABLE orders (
    id INTEGER PRIMARY KEY,
    supplier_id INTEGER NOT NULL REFERENCES suppliers (id),
    budget_id INTEGER NOT NULL REFERENCES budgets (id),
    branch_id INTEGER NOT NULL REFERENCES branches (id),
    ordered_on TEXT NOT NULL CHECK (ordered_on IS date(ordered_on)),
    ordered_by INTEGER NOT NULL REFERENCES staff (id),
    status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'received', 'cancelled'))
);

CREATE TABLE order_lines (
    order_id INTEGER NOT NULL REFERENCES orders (id),
    title_id INTEGER NOT NULL REFERENCES titles (id),
    copies INTEGER NOT NULL CHECK (copies > 0),
    price_cents INTEGER NOT NULL CHECK (price_cents > 0),
    PRIMARY KEY (order_id, title_id)
);

CREATE TABLE suggestions (
    id INTEGER PRIMARY KEY,
    member_id INTEGER NOT NULL REFERENCES members (id),
    wanted TEXT NOT NULL,
    title_id INTEGER REFERENCES titles (id),
    suggested_on TEXT NOT NULL CHECK (suggested_on IS date(suggested_on)),
    status TEXT NOT NULL DEFAULT 'new' CHECK (status IN ('new', 'approved', 'rejected')),
    reply TEXT,
    decided_by INTEGER REFERENCES staff (id),
    CHECK ((status = 'new') = (decided_by IS NULL))
);

CREATE VIEW charge_balances AS
SELECT
    c.id AS charge_id,
    c.member_id,
    CASE c.status
        WHEN 'open' THEN c.amount_cents - coalesce((SELECT sum(p.amount_cents) FROM payments p WHERE p.charge_id = c.id), 0)
        ELSE 0
    END AS open_cents
FROM charges c;
