CREATE TABLE depots (
    id INTEGER PRIMARY KEY,
    code TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    city TEXT NOT NULL
);
CREATE TABLE employees (
    id INTEGER PRIMARY KEY,
    full_name TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('head_dispatcher', 'dispatcher', 'technician', 'warehouse', 'accounts')),
    depot_id INTEGER NOT NULL REFERENCES depots (id),
    email TEXT NOT NULL UNIQUE,
    phone TEXT NOT NULL,
    is_active INTEGER NOT NULL DEFAULT 1 CHECK (is_active IN (0, 1))
);
CREATE TABLE skills (
    id INTEGER PRIMARY KEY,
    code TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL
);
CREATE TABLE certifications (
    id INTEGER PRIMARY KEY,
    technician_id INTEGER NOT NULL REFERENCES employees (id),
    skill_id INTEGER NOT NULL REFERENCES skills (id),
    certificate_no TEXT NOT NULL UNIQUE,
    issued_on TEXT NOT NULL CHECK (issued_on IS date(issued_on)),
    expires_on TEXT NOT NULL CHECK (expires_on IS date(expires_on)),
    CHECK (issued_on < expires_on)
);
CREATE INDEX certifications_by_technician ON certifications (technician_id, skill_id);
CREATE TABLE working_shifts (
    technician_id INTEGER NOT NULL REFERENCES employees (id),
    weekday INTEGER NOT NULL CHECK (weekday BETWEEN 0 AND 6),
    starts TEXT NOT NULL CHECK (starts IS strftime('%H:%M', starts)),
    ends TEXT NOT NULL CHECK (ends IS strftime('%H:%M', ends)),
    PRIMARY KEY (technician_id, weekday),
    CHECK (starts < ends)
);
CREATE TABLE absences (
    id INTEGER PRIMARY KEY,
    technician_id INTEGER NOT NULL REFERENCES employees (id),
    kind TEXT NOT NULL CHECK (kind IN ('vacation', 'sick', 'training')),
    first_day TEXT NOT NULL CHECK (first_day IS date(first_day)),
    last_day TEXT NOT NULL CHECK (last_day IS date(last_day)),
    note TEXT NOT NULL DEFAULT '',
    CHECK (first_day <= last_day)
);
CREATE INDEX absences_by_technician ON absences (technician_id, first_day);
CREATE TABLE customers (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('private', 'business')),
    phone TEXT NOT NULL,
    email TEXT UNIQUE,
    billing_address TEXT NOT NULL,
    city TEXT NOT NULL,
    payment_days INTEGER NOT NULL DEFAULT 14 CHECK (payment_days BETWEEN 0 AND 90),
    status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'blocked', 'former')),
    created_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE TABLE sites (
    id INTEGER PRIMARY KEY,
    customer_id INTEGER NOT NULL REFERENCES customers (id),
    label TEXT NOT NULL,
    address TEXT NOT NULL,
    city TEXT NOT NULL,
    depot_id INTEGER NOT NULL REFERENCES depots (id),
    access_note TEXT NOT NULL DEFAULT '',
    UNIQUE (customer_id, label)
);
CREATE TABLE equipment_models (
    id INTEGER PRIMARY KEY,
    code TEXT NOT NULL UNIQUE,
    manufacturer TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('heat_pump', 'ventilation')),
    skill_id INTEGER NOT NULL REFERENCES skills (id),
    service_interval_months INTEGER NOT NULL CHECK (service_interval_months BETWEEN 1 AND 60)
);
CREATE TABLE units (
    id INTEGER PRIMARY KEY,
    site_id INTEGER NOT NULL REFERENCES sites (id),
    model_id INTEGER NOT NULL REFERENCES equipment_models (id),
    serial_no TEXT NOT NULL UNIQUE,
    installed_on TEXT NOT NULL CHECK (installed_on IS date(installed_on)),
    last_serviced_on TEXT CHECK (last_serviced_on IS date(last_serviced_on)),
    status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'decommissioned')),
    CHECK (last_serviced_on IS NULL OR installed_on <= last_serviced_on)
);
CREATE INDEX units_by_site ON units (site_id);
CREATE TABLE sla_levels (
    id INTEGER PRIMARY KEY,
    code TEXT NOT NULL UNIQUE,
    response_days INTEGER NOT NULL CHECK (response_days > 0),
    labour_discount_percent INTEGER NOT NULL CHECK (labour_discount_percent BETWEEN 0 AND 100),
    includes_emergencies INTEGER NOT NULL CHECK (includes_emergencies IN (0, 1)),
    annual_fee_cents INTEGER NOT NULL CHECK (annual_fee_cents >= 0)
);
CREATE TABLE contracts (
    id INTEGER PRIMARY KEY,
    site_id INTEGER NOT NULL REFERENCES sites (id),
    sla_id INTEGER NOT NULL REFERENCES sla_levels (id),
    starts_on TEXT NOT NULL CHECK (starts_on IS date(starts_on)),
    ends_on TEXT NOT NULL CHECK (ends_on IS date(ends_on)),
    cancelled_on TEXT CHECK (cancelled_on IS date(cancelled_on)),
    CHECK (starts_on < ends_on)
);
CREATE INDEX contracts_by_site ON contracts (site_id, starts_on);
CREATE TABLE job_types (
    id INTEGER PRIMARY KEY,
    code TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    duration_min INTEGER NOT NULL CHECK (duration_min > 0 AND duration_min % 30 = 0),
    labour_cents INTEGER NOT NULL CHECK (labour_cents >= 0),
    skill_id INTEGER REFERENCES skills (id)
);
CREATE TABLE suppliers (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    email TEXT NOT NULL,
    lead_time_days INTEGER NOT NULL CHECK (lead_time_days > 0)
);
CREATE TABLE parts (
    id INTEGER PRIMARY KEY,
    sku TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    supplier_id INTEGER NOT NULL REFERENCES suppliers (id),
    price_cents INTEGER NOT NULL CHECK (price_cents > 0),
    cost_cents INTEGER NOT NULL CHECK (cost_cents > 0)
);
CREATE TABLE depot_stock (
    depot_id INTEGER NOT NULL REFERENCES depots (id),
    part_id INTEGER NOT NULL REFERENCES parts (id),
    quantity INTEGER NOT NULL CHECK (quantity >= 0),
    reorder_level INTEGER NOT NULL DEFAULT 0 CHECK (reorder_level >= 0),
    PRIMARY KEY (depot_id, part_id)
);
CREATE TABLE vans (
    id INTEGER PRIMARY KEY,
    plate TEXT NOT NULL UNIQUE,
    depot_id INTEGER NOT NULL REFERENCES depots (id),
    technician_id INTEGER UNIQUE REFERENCES employees (id)
);
CREATE TABLE van_stock (
    van_id INTEGER NOT NULL REFERENCES vans (id),
    part_id INTEGER NOT NULL REFERENCES parts (id),
    quantity INTEGER NOT NULL CHECK (quantity >= 0),
    PRIMARY KEY (van_id, part_id)
);
CREATE TABLE van_loadings (
    id INTEGER PRIMARY KEY,
    van_id INTEGER NOT NULL REFERENCES vans (id),
    part_id INTEGER NOT NULL REFERENCES parts (id),
    quantity INTEGER NOT NULL CHECK (quantity > 0),
    loaded_by INTEGER NOT NULL REFERENCES employees (id),
    loaded_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE TABLE purchase_orders (
    id INTEGER PRIMARY KEY,
    supplier_id INTEGER NOT NULL REFERENCES suppliers (id),
    depot_id INTEGER NOT NULL REFERENCES depots (id),
    status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'received', 'cancelled')),
    ordered_by INTEGER NOT NULL REFERENCES employees (id),
    ordered_on TEXT NOT NULL CHECK (ordered_on IS date(ordered_on)),
    expected_on TEXT NOT NULL CHECK (expected_on IS date(expected_on)),
    received_on TEXT CHECK (received_on IS date(received_on)),
    CHECK ((status = 'received') = (received_on IS NOT NULL))
);
CREATE TABLE purchase_order_lines (
    purchase_order_id INTEGER NOT NULL REFERENCES purchase_orders (id),
    part_id INTEGER NOT NULL REFERENCES parts (id),
    quantity INTEGER NOT NULL CHECK (quantity > 0),
    cost_cents INTEGER NOT NULL CHECK (cost_cents > 0),
    PRIMARY KEY (purchase_order_id, part_id)
);
CREATE TABLE quotes (
    id INTEGER PRIMARY KEY,
    unit_id INTEGER NOT NULL REFERENCES units (id),
    job_type_id INTEGER NOT NULL REFERENCES job_types (id),
    title TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'sent', 'accepted', 'declined')),
    valid_until TEXT NOT NULL CHECK (valid_until IS date(valid_until)),
    decided_on TEXT CHECK (decided_on IS date(decided_on)),
    CHECK ((status IN ('accepted', 'declined')) = (decided_on IS NOT NULL))
);
CREATE TABLE quote_lines (
    id INTEGER PRIMARY KEY,
    quote_id INTEGER NOT NULL REFERENCES quotes (id),
    description TEXT NOT NULL,
    part_id INTEGER REFERENCES parts (id),
    quantity INTEGER NOT NULL CHECK (quantity > 0),
    unit_price_cents INTEGER NOT NULL CHECK (unit_price_cents >= 0)
);
CREATE TABLE work_orders (
    id INTEGER PRIMARY KEY,
    unit_id INTEGER NOT NULL REFERENCES units (id),
    job_type_id INTEGER NOT NULL REFERENCES job_types (id),
    quote_id INTEGER UNIQUE REFERENCES quotes (id),
    priority TEXT NOT NULL CHECK (priority IN ('normal', 'high', 'emergency')),
    status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'scheduled', 'completed', 'cancelled')),
    description TEXT NOT NULL,
    due_on TEXT NOT NULL CHECK (due_on IS date(due_on)),
    opened_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE INDEX work_orders_by_unit ON work_orders (unit_id, status);
CREATE TABLE visits (
    id INTEGER PRIMARY KEY,
    work_order_id INTEGER NOT NULL REFERENCES work_orders (id),
    technician_id INTEGER NOT NULL REFERENCES employees (id),
    starts_at TEXT NOT NULL CHECK (starts_at IS strftime('%Y-%m-%dT%H:%M', starts_at)),
    ends_at TEXT NOT NULL CHECK (ends_at IS strftime('%Y-%m-%dT%H:%M', ends_at)),
    status TEXT NOT NULL DEFAULT 'booked' CHECK (status IN ('booked', 'completed', 'cancelled')),
    cancellation_reason TEXT,
    report TEXT,
    refrigerant_kg REAL NOT NULL DEFAULT 0 CHECK (refrigerant_kg BETWEEN 0 AND 50),
    CHECK (starts_at < ends_at),
    CHECK ((status = 'cancelled') = (cancellation_reason IS NOT NULL)),
    CHECK ((status = 'completed') = (report IS NOT NULL))
);
CREATE INDEX visits_by_technician ON visits (technician_id, starts_at);
CREATE UNIQUE INDEX one_booked_visit_per_work_order ON visits (work_order_id) WHERE status = 'booked';
CREATE TABLE visit_parts (
    visit_id INTEGER NOT NULL REFERENCES visits (id),
    part_id INTEGER NOT NULL REFERENCES parts (id),
    quantity INTEGER NOT NULL CHECK (quantity > 0),
    PRIMARY KEY (visit_id, part_id)
);
CREATE TABLE invoices (
    id INTEGER PRIMARY KEY,
    customer_id INTEGER NOT NULL REFERENCES customers (id),
    work_order_id INTEGER REFERENCES work_orders (id),
    status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'paid', 'void')),
    issued_on TEXT NOT NULL CHECK (issued_on IS date(issued_on)),
    due_on TEXT NOT NULL CHECK (due_on IS date(due_on)),
    CHECK (issued_on <= due_on)
);
CREATE INDEX invoices_by_customer ON invoices (customer_id, status);
CREATE TABLE invoice_lines (
    id INTEGER PRIMARY KEY,
    invoice_id INTEGER NOT NULL REFERENCES invoices (id),
    description TEXT NOT NULL,
    part_id INTEGER REFERENCES parts (id),
    quantity INTEGER NOT NULL CHECK (quantity > 0),
    unit_price_cents INTEGER NOT NULL CHECK (unit_price_cents >= 0)
);
CREATE INDEX invoice_lines_by_invoice ON invoice_lines (invoice_id);
CREATE TABLE payments (
    id INTEGER PRIMARY KEY,
    invoice_id INTEGER NOT NULL REFERENCES invoices (id),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    method TEXT NOT NULL CHECK (method IN ('transfer', 'card', 'direct_debit')),
    received_on TEXT NOT NULL CHECK (received_on IS date(received_on))
);
CREATE TABLE complaints (
    id INTEGER PRIMARY KEY,
    work_order_id INTEGER NOT NULL REFERENCES work_orders (id),
    category TEXT NOT NULL CHECK (category IN ('late_visit', 'noise', 'workmanship', 'billing')),
    description TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'resolved')),
    opened_on TEXT NOT NULL CHECK (opened_on IS date(opened_on)),
    resolved_on TEXT CHECK (resolved_on IS date(resolved_on)),
    resolution TEXT,
    CHECK ((status = 'resolved') = (resolved_on IS NOT NULL)),
    CHECK ((status = 'resolved') = (resolution IS NOT NULL))
);
CREATE TABLE credit_notes (
    id INTEGER PRIMARY KEY,
    invoice_id INTEGER NOT NULL REFERENCES invoices (id),
    complaint_id INTEGER UNIQUE REFERENCES complaints (id),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    issued_on TEXT NOT NULL CHECK (issued_on IS date(issued_on))
);
CREATE VIEW invoice_balances AS
SELECT
    invoice_id,
    total_cents,
    paid_cents,
    credited_cents,
    CASE status WHEN 'open' THEN total_cents - paid_cents - credited_cents ELSE 0 END AS open_cents
FROM (
    SELECT
        i.id AS invoice_id,
        i.status,
        (SELECT coalesce(sum(quantity * unit_price_cents), 0) FROM invoice_lines l WHERE l.invoice_id = i.id)
            AS total_cents,
        (SELECT coalesce(sum(amount_cents), 0) FROM payments p WHERE p.invoice_id = i.id) AS paid_cents,
        (SELECT coalesce(sum(amount_cents), 0) FROM credit_notes c WHERE c.invoice_id = i.id) AS credited_cents
    FROM invoices i
);
