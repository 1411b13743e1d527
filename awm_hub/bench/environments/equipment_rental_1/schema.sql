CREATE TABLE branches (
    id INTEGER NOT NULL PRIMARY KEY,
    code VARCHAR NOT NULL UNIQUE,
    name VARCHAR NOT NULL UNIQUE,
    address VARCHAR NOT NULL,
    phone VARCHAR NOT NULL
);

CREATE TABLE employees (
    id INTEGER NOT NULL PRIMARY KEY,
    full_name VARCHAR NOT NULL,
    role VARCHAR NOT NULL CHECK (role IN ('manager', 'counter', 'technician', 'driver')),
    branch_id INTEGER NOT NULL REFERENCES branches (id),
    email VARCHAR NOT NULL UNIQUE,
    is_active BOOLEAN NOT NULL DEFAULT 1 CHECK (is_active IN (0, 1))
);

CREATE TABLE vehicles (
    id INTEGER NOT NULL PRIMARY KEY,
    plate VARCHAR NOT NULL UNIQUE,
    name VARCHAR NOT NULL,
    branch_id INTEGER NOT NULL REFERENCES branches (id),
    payload_kg INTEGER NOT NULL CHECK (payload_kg > 0)
);

CREATE TABLE equipment_models (
    id INTEGER NOT NULL PRIMARY KEY,
    sku VARCHAR NOT NULL UNIQUE,
    name VARCHAR NOT NULL,
    maker VARCHAR NOT NULL,
    category VARCHAR NOT NULL CHECK (category IN ('earthmoving', 'access', 'compaction', 'power', 'concrete', 'garden')),
    weight_kg INTEGER NOT NULL CHECK (weight_kg > 0),
    needs_licence BOOLEAN NOT NULL DEFAULT 0 CHECK (needs_licence IN (0, 1)),
    service_interval_hours INTEGER CHECK (service_interval_hours > 0),
    replacement_cents INTEGER NOT NULL CHECK (replacement_cents > 0),
    excess_cents INTEGER NOT NULL CHECK (excess_cents >= 0)
);

CREATE TABLE rates (
    id INTEGER NOT NULL PRIMARY KEY,
    model_id INTEGER NOT NULL REFERENCES equipment_models (id),
    valid_from DATE NOT NULL CHECK (valid_from IS date(valid_from)),
    daily_cents INTEGER NOT NULL CHECK (daily_cents > 0),
    weekly_cents INTEGER NOT NULL CHECK (weekly_cents >= daily_cents),
    monthly_cents INTEGER NOT NULL CHECK (monthly_cents >= weekly_cents),
    UNIQUE (model_id, valid_from)
);

CREATE TABLE units (
    id INTEGER NOT NULL PRIMARY KEY,
    serial_number VARCHAR NOT NULL UNIQUE,
    model_id INTEGER NOT NULL REFERENCES equipment_models (id),
    branch_id INTEGER NOT NULL REFERENCES branches (id),
    status VARCHAR NOT NULL DEFAULT 'available'
        CHECK (status IN ('available', 'on_rent', 'maintenance', 'retired')),
    meter_hours INTEGER NOT NULL DEFAULT 0 CHECK (meter_hours >= 0),
    service_due_hours INTEGER CHECK (service_due_hours >= 0),
    acquired_on DATE NOT NULL CHECK (acquired_on IS date(acquired_on))
);
CREATE INDEX units_by_model ON units (model_id, branch_id, status);

CREATE TABLE accounts (
    id INTEGER NOT NULL PRIMARY KEY,
    number VARCHAR NOT NULL UNIQUE,
    name VARCHAR NOT NULL UNIQUE,
    kind VARCHAR NOT NULL CHECK (kind IN ('business', 'private')),
    email VARCHAR NOT NULL,
    status VARCHAR NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'on_hold', 'closed')),
    credit_limit_cents INTEGER NOT NULL CHECK (credit_limit_cents >= 0),
    payment_terms_days INTEGER NOT NULL CHECK (payment_terms_days BETWEEN 0 AND 90),
    discount_percent INTEGER NOT NULL DEFAULT 0 CHECK (discount_percent BETWEEN 0 AND 30),
    opened_on DATE NOT NULL CHECK (opened_on IS date(opened_on))
);

CREATE TABLE contacts (
    id INTEGER NOT NULL PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    full_name VARCHAR NOT NULL,
    phone VARCHAR NOT NULL,
    has_licence BOOLEAN NOT NULL DEFAULT 0 CHECK (has_licence IN (0, 1))
);
CREATE INDEX contacts_by_account ON contacts (account_id);

CREATE TABLE delivery_zones (
    id INTEGER NOT NULL PRIMARY KEY,
    code VARCHAR NOT NULL UNIQUE,
    name VARCHAR NOT NULL,
    fee_cents INTEGER NOT NULL CHECK (fee_cents >= 0)
);

CREATE TABLE sites (
    id INTEGER NOT NULL PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    name VARCHAR NOT NULL,
    address VARCHAR NOT NULL,
    zone_id INTEGER NOT NULL REFERENCES delivery_zones (id)
);
CREATE INDEX sites_by_account ON sites (account_id);

CREATE TABLE discounts (
    id INTEGER NOT NULL PRIMARY KEY,
    code VARCHAR NOT NULL UNIQUE,
    name VARCHAR NOT NULL,
    percent INTEGER NOT NULL CHECK (percent BETWEEN 1 AND 50),
    category VARCHAR CHECK (category IN ('earthmoving', 'access', 'compaction', 'power', 'concrete', 'garden')),
    min_days INTEGER NOT NULL DEFAULT 1 CHECK (min_days >= 1),
    valid_from DATE NOT NULL CHECK (valid_from IS date(valid_from)),
    valid_until DATE NOT NULL CHECK (valid_until IS date(valid_until)),
    is_active BOOLEAN NOT NULL DEFAULT 1 CHECK (is_active IN (0, 1)),
    CHECK (valid_from <= valid_until)
);

CREATE TABLE reservations (
    id INTEGER NOT NULL PRIMARY KEY,
    number VARCHAR NOT NULL UNIQUE,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    contact_id INTEGER NOT NULL REFERENCES contacts (id),
    branch_id INTEGER NOT NULL REFERENCES branches (id),
    starts_on DATE NOT NULL CHECK (starts_on IS date(starts_on)),
    ends_on DATE NOT NULL CHECK (ends_on IS date(ends_on)),
    status VARCHAR NOT NULL DEFAULT 'confirmed' CHECK (status IN ('confirmed', 'checked_out', 'cancelled')),
    damage_waiver BOOLEAN NOT NULL DEFAULT 0 CHECK (damage_waiver IN (0, 1)),
    discount_id INTEGER REFERENCES discounts (id),
    note VARCHAR,
    created_by INTEGER NOT NULL REFERENCES employees (id),
    created_at DATETIME NOT NULL,
    CHECK (starts_on <= ends_on)
);
CREATE INDEX reservations_by_account ON reservations (account_id, status);
CREATE INDEX reservations_by_start ON reservations (starts_on);

CREATE TABLE reservation_lines (
    id INTEGER NOT NULL PRIMARY KEY,
    reservation_id INTEGER NOT NULL REFERENCES reservations (id),
    model_id INTEGER NOT NULL REFERENCES equipment_models (id),
    quantity INTEGER NOT NULL CHECK (quantity > 0),
    discount_percent INTEGER NOT NULL DEFAULT 0 CHECK (discount_percent BETWEEN 0 AND 50),
    price_cents INTEGER NOT NULL CHECK (price_cents >= 0),
    UNIQUE (reservation_id, model_id)
);

CREATE TABLE rentals (
    id INTEGER NOT NULL PRIMARY KEY,
    number VARCHAR NOT NULL UNIQUE,
    reservation_id INTEGER NOT NULL UNIQUE REFERENCES reservations (id),
    starts_on DATE NOT NULL CHECK (starts_on IS date(starts_on)),
    due_on DATE NOT NULL CHECK (due_on IS date(due_on)),
    status VARCHAR NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'returned', 'invoiced')),
    opened_by INTEGER NOT NULL REFERENCES employees (id),
    CHECK (starts_on <= due_on)
);

CREATE TABLE rental_items (
    id INTEGER NOT NULL PRIMARY KEY,
    rental_id INTEGER NOT NULL REFERENCES rentals (id),
    unit_id INTEGER NOT NULL REFERENCES units (id),
    daily_cents INTEGER NOT NULL CHECK (daily_cents > 0),
    weekly_cents INTEGER NOT NULL CHECK (weekly_cents > 0),
    monthly_cents INTEGER NOT NULL CHECK (monthly_cents > 0),
    discount_percent INTEGER NOT NULL DEFAULT 0 CHECK (discount_percent BETWEEN 0 AND 50),
    meter_out INTEGER NOT NULL CHECK (meter_out >= 0),
    meter_in INTEGER CHECK (meter_in >= meter_out),
    returned_on DATE CHECK (returned_on IS date(returned_on)),
    CHECK ((meter_in IS NULL) = (returned_on IS NULL))
);
CREATE INDEX rental_items_by_rental ON rental_items (rental_id);
CREATE UNIQUE INDEX one_rental_per_unit ON rental_items (unit_id) WHERE returned_on IS NULL;

CREATE TABLE damage_reports (
    id INTEGER NOT NULL PRIMARY KEY,
    rental_item_id INTEGER NOT NULL UNIQUE REFERENCES rental_items (id),
    severity VARCHAR NOT NULL CHECK (severity IN ('minor', 'major')),
    description VARCHAR NOT NULL,
    estimate_cents INTEGER NOT NULL CHECK (estimate_cents >= 0),
    status VARCHAR NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'charged', 'waived')),
    charged_cents INTEGER CHECK (charged_cents <= estimate_cents),
    decision_note VARCHAR,
    reported_on DATE NOT NULL CHECK (reported_on IS date(reported_on)),
    decided_on DATE CHECK (decided_on IS date(decided_on)),
    CHECK ((status = 'open') = (decided_on IS NULL)),
    CHECK ((status = 'charged') = (charged_cents IS NOT NULL))
);

CREATE TABLE maintenance_orders (
    id INTEGER NOT NULL PRIMARY KEY,
    unit_id INTEGER NOT NULL REFERENCES units (id),
    kind VARCHAR NOT NULL CHECK (kind IN ('service', 'repair', 'inspection')),
    status VARCHAR NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'done')),
    description VARCHAR NOT NULL,
    technician_id INTEGER REFERENCES employees (id),
    damage_report_id INTEGER REFERENCES damage_reports (id),
    opened_on DATE NOT NULL CHECK (opened_on IS date(opened_on)),
    closed_on DATE CHECK (closed_on IS date(closed_on)),
    cost_cents INTEGER CHECK (cost_cents >= 0),
    CHECK ((status = 'open') = (closed_on IS NULL))
);
CREATE INDEX maintenance_orders_by_unit ON maintenance_orders (unit_id, status);

CREATE TABLE deliveries (
    id INTEGER NOT NULL PRIMARY KEY,
    reservation_id INTEGER NOT NULL REFERENCES reservations (id),
    site_id INTEGER NOT NULL REFERENCES sites (id),
    direction VARCHAR NOT NULL CHECK (direction IN ('deliver', 'collect')),
    scheduled_on DATE NOT NULL CHECK (scheduled_on IS date(scheduled_on)),
    slot VARCHAR NOT NULL CHECK (slot IN ('am', 'pm')),
    vehicle_id INTEGER NOT NULL REFERENCES vehicles (id),
    status VARCHAR NOT NULL DEFAULT 'scheduled' CHECK (status IN ('scheduled', 'completed', 'cancelled')),
    fee_cents INTEGER NOT NULL CHECK (fee_cents >= 0)
);
CREATE INDEX deliveries_by_day ON deliveries (scheduled_on, slot);
CREATE UNIQUE INDEX one_trip_per_vehicle ON deliveries (vehicle_id, scheduled_on, slot) WHERE status = 'scheduled';

CREATE TABLE invoices (
    id INTEGER NOT NULL PRIMARY KEY,
    number VARCHAR NOT NULL UNIQUE,
    rental_id INTEGER NOT NULL UNIQUE REFERENCES rentals (id),
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    issued_on DATE NOT NULL CHECK (issued_on IS date(issued_on)),
    due_on DATE NOT NULL CHECK (due_on IS date(due_on)),
    status VARCHAR NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'paid'))
);
CREATE INDEX invoices_by_account ON invoices (account_id, status);

CREATE TABLE invoice_lines (
    id INTEGER NOT NULL PRIMARY KEY,
    invoice_id INTEGER NOT NULL REFERENCES invoices (id),
    position INTEGER NOT NULL CHECK (position > 0),
    kind VARCHAR NOT NULL CHECK (kind IN ('rental', 'discount', 'late', 'waiver', 'delivery', 'damage')),
    description VARCHAR NOT NULL,
    amount_cents INTEGER NOT NULL,
    UNIQUE (invoice_id, position)
);

CREATE TABLE payments (
    id INTEGER NOT NULL PRIMARY KEY,
    invoice_id INTEGER NOT NULL REFERENCES invoices (id),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    method VARCHAR NOT NULL CHECK (method IN ('cash', 'card', 'transfer')),
    reference VARCHAR,
    paid_on DATE NOT NULL CHECK (paid_on IS date(paid_on)),
    received_by INTEGER NOT NULL REFERENCES employees (id)
);
CREATE INDEX payments_by_invoice ON payments (invoice_id);
