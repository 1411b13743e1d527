CREATE TABLE staff (
    id INTEGER PRIMARY KEY,
    full_name TEXT NOT NULL,
    email TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL CHECK (role IN ('coordinator', 'warehouse', 'driver', 'inspector')),
    hired_on TEXT NOT NULL CHECK (hired_on IS date(hired_on, '+0 days')),
    is_active INTEGER NOT NULL DEFAULT 1 CHECK (is_active IN (0, 1))
);

CREATE TABLE storage_areas (
    id INTEGER PRIMARY KEY,
    code TEXT NOT NULL UNIQUE,
    storage_class TEXT NOT NULL CHECK (storage_class IN ('ambient', 'chilled', 'frozen')),
    capacity_kg INTEGER NOT NULL CHECK (capacity_kg > 0),
    is_active INTEGER NOT NULL DEFAULT 1 CHECK (is_active IN (0, 1))
);

CREATE TABLE items (
    id INTEGER PRIMARY KEY,
    sku TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL UNIQUE,
    category TEXT NOT NULL CHECK (category IN ('tinned', 'dry', 'dairy', 'frozen', 'produce', 'household')),
    storage_class TEXT NOT NULL CHECK (storage_class IN ('ambient', 'chilled', 'frozen')),
    case_kg INTEGER NOT NULL CHECK (case_kg BETWEEN 1 AND 100)
);

CREATE TABLE donors (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('farm', 'shop', 'wholesaler', 'producer')),
    town TEXT NOT NULL,
    email TEXT NOT NULL UNIQUE,
    is_active INTEGER NOT NULL DEFAULT 1 CHECK (is_active IN (0, 1))
);

CREATE TABLE vehicles (
    id INTEGER PRIMARY KEY,
    plate TEXT NOT NULL UNIQUE,
    payload_kg INTEGER NOT NULL CHECK (payload_kg > 0),
    is_refrigerated INTEGER NOT NULL CHECK (is_refrigerated IN (0, 1)),
    status TEXT NOT NULL DEFAULT 'in_service' CHECK (status IN ('in_service', 'in_repair', 'retired'))
);

CREATE TABLE pickups (
    id INTEGER PRIMARY KEY,
    donor_id INTEGER NOT NULL REFERENCES donors (id),
    planned_on TEXT NOT NULL CHECK (planned_on IS date(planned_on, '+0 days')),
    half_day TEXT NOT NULL CHECK (half_day IN ('morning', 'afternoon')),
    storage_class TEXT NOT NULL CHECK (storage_class IN ('ambient', 'chilled', 'frozen')),
    expected_kg INTEGER NOT NULL CHECK (expected_kg > 0),
    vehicle_id INTEGER NOT NULL REFERENCES vehicles (id),
    driver_id INTEGER NOT NULL REFERENCES staff (id),
    status TEXT NOT NULL DEFAULT 'planned' CHECK (status IN ('planned', 'done', 'cancelled'))
);

CREATE TABLE donations (
    id INTEGER PRIMARY KEY,
    donor_id INTEGER NOT NULL REFERENCES donors (id),
    received_on TEXT NOT NULL CHECK (received_on IS date(received_on, '+0 days')),
    received_by INTEGER NOT NULL DEFAULT 1 REFERENCES staff (id)
);

CREATE TABLE lots (
    id INTEGER PRIMARY KEY,
    code TEXT NOT NULL UNIQUE,
    donation_id INTEGER NOT NULL REFERENCES donations (id),
    item_id INTEGER NOT NULL REFERENCES items (id),
    storage_area_id INTEGER NOT NULL REFERENCES storage_areas (id),
    cases_received INTEGER NOT NULL CHECK (cases_received > 0),
    best_before_on TEXT NOT NULL CHECK (best_before_on IS date(best_before_on, '+0 days')),
    status TEXT NOT NULL DEFAULT 'inbound' CHECK (status IN ('inbound', 'released', 'quarantined')),
    quarantine_reason TEXT NOT NULL DEFAULT '',
    CHECK ((status = 'quarantined') = (quarantine_reason <> ''))
);

CREATE TABLE write_offs (
    id INTEGER PRIMARY KEY,
    lot_id INTEGER NOT NULL REFERENCES lots (id),
    cases INTEGER NOT NULL CHECK (cases > 0),
    reason TEXT NOT NULL CHECK (reason <> ''),
    written_off_on TEXT NOT NULL CHECK (written_off_on IS date(written_off_on, '+0 days')),
    written_off_by INTEGER NOT NULL DEFAULT 1 REFERENCES staff (id)
);

CREATE TABLE agencies (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('pantry', 'shelter', 'kitchen', 'fridge')),
    town TEXT NOT NULL,
    email TEXT NOT NULL UNIQUE,
    households INTEGER NOT NULL CHECK (households > 0),
    is_rural INTEGER NOT NULL DEFAULT 0 CHECK (is_rural IN (0, 1)),
    status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'suspended', 'closed')),
    cold_chain_ends_on TEXT CHECK (cold_chain_ends_on IS NULL OR cold_chain_ends_on IS date(cold_chain_ends_on, '+0 days'))
);

CREATE TABLE inspections (
    id INTEGER PRIMARY KEY,
    agency_id INTEGER NOT NULL REFERENCES agencies (id),
    inspected_on TEXT NOT NULL CHECK (inspected_on IS date(inspected_on, '+0 days')),
    inspector_id INTEGER NOT NULL REFERENCES staff (id),
    result TEXT NOT NULL CHECK (result IN ('passed', 'failed')),
    UNIQUE (agency_id, inspected_on)
);

CREATE TABLE orders (
    id INTEGER PRIMARY KEY,
    code TEXT NOT NULL UNIQUE,
    agency_id INTEGER NOT NULL REFERENCES agencies (id),
    collection_on TEXT NOT NULL CHECK (collection_on IS date(collection_on, '+0 days')),
    status TEXT NOT NULL DEFAULT 'placed' CHECK (status IN ('placed', 'on_hold', 'collected', 'cancelled')),
    hold_reason TEXT NOT NULL DEFAULT '',
    placed_on TEXT NOT NULL CHECK (placed_on IS date(placed_on, '+0 days')),
    placed_by INTEGER NOT NULL DEFAULT 1 REFERENCES staff (id),
    cancelled_on TEXT CHECK (cancelled_on IS NULL OR cancelled_on IS date(cancelled_on, '+0 days')),
    CHECK (placed_on <= collection_on),
    CHECK ((status = 'on_hold') = (hold_reason <> '')),
    CHECK ((status = 'cancelled') = (cancelled_on IS NOT NULL))
);

CREATE TABLE order_lines (
    id INTEGER PRIMARY KEY,
    order_id INTEGER NOT NULL REFERENCES orders (id),
    item_id INTEGER NOT NULL REFERENCES items (id),
    cases INTEGER NOT NULL CHECK (cases > 0),
    UNIQUE (order_id, item_id)
);

CREATE TABLE allocations (
    order_line_id INTEGER NOT NULL REFERENCES order_lines (id),
    lot_id INTEGER NOT NULL REFERENCES lots (id),
    cases INTEGER NOT NULL CHECK (cases > 0),
    PRIMARY KEY (order_line_id, lot_id)
);

CREATE TABLE charges (
    id INTEGER PRIMARY KEY,
    agency_id INTEGER NOT NULL REFERENCES agencies (id),
    order_id INTEGER NOT NULL REFERENCES orders (id),
    kind TEXT NOT NULL CHECK (kind IN ('handling', 'cancellation')),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    charged_on TEXT NOT NULL CHECK (charged_on IS date(charged_on, '+0 days')),
    UNIQUE (order_id, kind)
);

CREATE TABLE payments (
    id INTEGER PRIMARY KEY,
    agency_id INTEGER NOT NULL REFERENCES agencies (id),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    paid_on TEXT NOT NULL CHECK (paid_on IS date(paid_on, '+0 days')),
    reference TEXT NOT NULL UNIQUE
);

CREATE UNIQUE INDEX pickups_by_vehicle ON pickups (vehicle_id, planned_on, half_day) WHERE status <> 'cancelled';

CREATE UNIQUE INDEX pickups_by_driver ON pickups (driver_id, planned_on, half_day) WHERE status <> 'cancelled';

CREATE INDEX pickups_by_day ON pickups (planned_on);

CREATE INDEX donations_by_donor ON donations (donor_id, received_on);

CREATE INDEX lots_by_item ON lots (item_id, best_before_on);

CREATE INDEX lots_by_area ON lots (storage_area_id);

CREATE INDEX write_offs_by_lot ON write_offs (lot_id);

CREATE INDEX orders_by_agency ON orders (agency_id, collection_on);

CREATE INDEX orders_by_day ON orders (collection_on, status);

CREATE INDEX allocations_by_lot ON allocations (lot_id);

CREATE INDEX charges_by_agency ON charges (agency_id, charged_on);

CREATE INDEX payments_by_agency ON payments (agency_id, paid_on);

CREATE VIEW lot_stock AS
SELECT id AS lot_id,
    cases_received - written_off - collected AS cases_in_house,
    cases_received - written_off - collected - reserved AS cases_free
FROM (
    SELECT l.id, l.cases_received,
        (SELECT COALESCE(SUM(w.cases), 0) FROM write_offs w WHERE w.lot_id = l.id) AS written_off,
        (SELECT COALESCE(SUM(a.cases), 0) FROM allocations a JOIN order_lines ol ON ol.id = a.order_line_id
            JOIN orders o ON o.id = ol.order_id WHERE a.lot_id = l.id AND o.status = 'collected') AS collected,
        (SELECT COALESCE(SUM(a.cases), 0) FROM allocations a JOIN order_lines ol ON ol.id = a.order_line_id
            JOIN orders o ON o.id = ol.order_id WHERE a.lot_id = l.id AND o.status IN ('placed', 'on_hold')) AS reserved
    FROM lots l
);
