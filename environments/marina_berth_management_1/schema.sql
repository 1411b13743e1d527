CREATE TABLE staff (
    id INTEGER PRIMARY KEY,
    full_name TEXT NOT NULL,
    email TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL CHECK (role IN ('manager', 'clerk', 'warden', 'crane_operator')),
    is_active INTEGER NOT NULL DEFAULT 1 CHECK (is_active IN (0, 1))
);

CREATE TABLE customers (
    id INTEGER PRIMARY KEY,
    full_name TEXT NOT NULL,
    email TEXT NOT NULL UNIQUE,
    phone TEXT NOT NULL,
    city TEXT NOT NULL
);

CREATE TABLE boats (
    id INTEGER PRIMARY KEY,
    customer_id INTEGER NOT NULL REFERENCES customers (id),
    name TEXT NOT NULL,
    registration TEXT NOT NULL UNIQUE,
    hull TEXT NOT NULL CHECK (hull IN ('monohull', 'multihull')),
    length_cm INTEGER NOT NULL CHECK (length_cm BETWEEN 200 AND 3000),
    beam_cm INTEGER NOT NULL CHECK (beam_cm BETWEEN 80 AND 1500),
    draught_cm INTEGER NOT NULL CHECK (draught_cm BETWEEN 10 AND 500),
    weight_kg INTEGER NOT NULL CHECK (weight_kg BETWEEN 100 AND 60000)
);

CREATE TABLE policies (
    id INTEGER PRIMARY KEY,
    boat_id INTEGER NOT NULL REFERENCES boats (id),
    policy_number TEXT NOT NULL UNIQUE,
    insurer TEXT NOT NULL,
    cover_cents INTEGER NOT NULL CHECK (cover_cents > 0),
    starts_on TEXT NOT NULL CHECK (starts_on IS date(starts_on, '+0 days')),
    ends_on TEXT NOT NULL CHECK (ends_on IS date(ends_on, '+0 days')),
    CHECK (starts_on <= ends_on)
);

CREATE TABLE pontoons (
    id INTEGER PRIMARY KEY,
    code TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    has_power INTEGER NOT NULL CHECK (has_power IN (0, 1)),
    warden_id INTEGER NOT NULL REFERENCES staff (id)
);

CREATE TABLE berths (
    id INTEGER PRIMARY KEY,
    pontoon_id INTEGER NOT NULL REFERENCES pontoons (id),
    code TEXT NOT NULL UNIQUE,
    purpose TEXT NOT NULL CHECK (purpose IN ('seasonal', 'visitor')),
    length_cm INTEGER NOT NULL CHECK (length_cm > 0),
    width_cm INTEGER NOT NULL CHECK (width_cm > 0),
    depth_cm INTEGER NOT NULL CHECK (depth_cm > 0),
    rate_cents INTEGER NOT NULL CHECK (rate_cents > 0),
    season_fee_cents INTEGER CHECK (season_fee_cents > 0),
    CHECK ((purpose = 'seasonal') = (season_fee_cents IS NOT NULL))
);

CREATE TABLE closures (
    id INTEGER PRIMARY KEY,
    berth_id INTEGER NOT NULL REFERENCES berths (id),
    starts_on TEXT NOT NULL CHECK (starts_on IS date(starts_on, '+0 days')),
    ends_on TEXT NOT NULL CHECK (ends_on IS date(ends_on, '+0 days')),
    reason TEXT NOT NULL,
    CHECK (starts_on <= ends_on)
);

CREATE TABLE contracts (
    id INTEGER PRIMARY KEY,
    berth_id INTEGER NOT NULL REFERENCES berths (id),
    boat_id INTEGER NOT NULL REFERENCES boats (id),
    starts_on TEXT NOT NULL CHECK (starts_on IS date(starts_on, '+0 days')),
    ends_on TEXT NOT NULL CHECK (ends_on IS date(ends_on, '+0 days')),
    fee_cents INTEGER NOT NULL CHECK (fee_cents >= 0),
    signed_by INTEGER NOT NULL REFERENCES staff (id),
    CHECK (starts_on <= ends_on)
);

CREATE TABLE absences (
    id INTEGER PRIMARY KEY,
    contract_id INTEGER NOT NULL REFERENCES contracts (id),
    leaves_on TEXT NOT NULL CHECK (leaves_on IS date(leaves_on, '+0 days')),
    returns_on TEXT NOT NULL CHECK (returns_on IS date(returns_on, '+0 days')),
    CHECK (leaves_on < returns_on)
);

CREATE TABLE visits (
    id INTEGER PRIMARY KEY,
    number TEXT NOT NULL UNIQUE,
    boat_id INTEGER NOT NULL REFERENCES boats (id),
    berth_id INTEGER NOT NULL REFERENCES berths (id),
    arrives_on TEXT NOT NULL CHECK (arrives_on IS date(arrives_on, '+0 days')),
    departs_on TEXT NOT NULL CHECK (departs_on IS date(departs_on, '+0 days')),
    price_cents INTEGER NOT NULL CHECK (price_cents >= 0),
    status TEXT NOT NULL DEFAULT 'booked' CHECK (status IN ('booked', 'checked_in', 'checked_out', 'cancelled')),
    cancelled_on TEXT CHECK (cancelled_on IS date(cancelled_on, '+0 days')),
    cancellation_fee_cents INTEGER CHECK (cancellation_fee_cents BETWEEN 0 AND price_cents),
    booked_by INTEGER NOT NULL DEFAULT 1 REFERENCES staff (id),
    CHECK (arrives_on < departs_on),
    CHECK ((status = 'cancelled') = (cancelled_on IS NOT NULL)),
    CHECK ((status = 'cancelled') = (cancellation_fee_cents IS NOT NULL))
);

CREATE TABLE waiting_entries (
    id INTEGER PRIMARY KEY,
    boat_id INTEGER NOT NULL REFERENCES boats (id),
    joined_on TEXT NOT NULL CHECK (joined_on IS date(joined_on, '+0 days')),
    status TEXT NOT NULL DEFAULT 'waiting' CHECK (status IN ('waiting', 'placed', 'withdrawn'))
);

CREATE TABLE invoices (
    id INTEGER PRIMARY KEY,
    number TEXT NOT NULL UNIQUE,
    customer_id INTEGER NOT NULL REFERENCES customers (id),
    issued_on TEXT NOT NULL CHECK (issued_on IS date(issued_on, '+0 days')),
    due_on TEXT NOT NULL CHECK (due_on IS date(due_on, '+0 days')),
    status TEXT NOT NULL DEFAULT 'issued' CHECK (status IN ('issued', 'void')),
    CHECK (issued_on <= due_on)
);

CREATE TABLE invoice_lines (
    id INTEGER PRIMARY KEY,
    invoice_id INTEGER NOT NULL REFERENCES invoices (id),
    description TEXT NOT NULL,
    amount_cents INTEGER NOT NULL CHECK (amount_cents <> 0)
);

CREATE TABLE payments (
    id INTEGER PRIMARY KEY,
    invoice_id INTEGER NOT NULL REFERENCES invoices (id),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    method TEXT NOT NULL CHECK (method IN ('transfer', 'card', 'cash')),
    reference TEXT NOT NULL DEFAULT '',
    received_on TEXT NOT NULL CHECK (received_on IS date(received_on, '+0 days'))
);

CREATE TABLE lift_tariffs (
    id INTEGER PRIMARY KEY,
    max_weight_kg INTEGER NOT NULL UNIQUE CHECK (max_weight_kg > 0),
    price_cents INTEGER NOT NULL CHECK (price_cents > 0)
);

CREATE TABLE lifts (
    id INTEGER PRIMARY KEY,
    boat_id INTEGER NOT NULL REFERENCES boats (id),
    kind TEXT NOT NULL CHECK (kind IN ('launch', 'haul_out')),
    starts_at TEXT NOT NULL CHECK (starts_at IS strftime('%Y-%m-%dT%H:%M', starts_at, '+0 days')),
    price_cents INTEGER NOT NULL CHECK (price_cents > 0),
    status TEXT NOT NULL DEFAULT 'booked' CHECK (status IN ('booked', 'done', 'cancelled'))
);

CREATE INDEX customers_by_name ON customers (full_name);

CREATE INDEX boats_by_customer ON boats (customer_id);

CREATE INDEX boats_by_name ON boats (name);

CREATE INDEX policies_by_boat ON policies (boat_id, ends_on);

CREATE INDEX berths_by_pontoon ON berths (pontoon_id);

CREATE INDEX closures_by_berth ON closures (berth_id, starts_on);

CREATE INDEX contracts_by_berth ON contracts (berth_id, starts_on);

CREATE INDEX contracts_by_boat ON contracts (boat_id);

CREATE INDEX absences_by_contract ON absences (contract_id, leaves_on);

CREATE INDEX visits_by_berth ON visits (berth_id, arrives_on);

CREATE INDEX visits_by_boat ON visits (boat_id);

CREATE INDEX visits_by_arrival ON visits (arrives_on);

CREATE INDEX waiting_entries_by_boat ON waiting_entries (boat_id);

CREATE UNIQUE INDEX waiting_entries_once ON waiting_entries (boat_id) WHERE status = 'waiting';

CREATE INDEX invoices_by_customer ON invoices (customer_id, due_on);

CREATE INDEX invoice_lines_by_invoice ON invoice_lines (invoice_id);

CREATE INDEX payments_by_invoice ON payments (invoice_id);

CREATE INDEX lifts_by_boat ON lifts (boat_id);

CREATE UNIQUE INDEX lifts_one_an_hour ON lifts (starts_at) WHERE status <> 'cancelled';
