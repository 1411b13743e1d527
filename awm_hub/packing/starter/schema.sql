-- One statement per table or index. Dates are YYYY-MM-DD, and checked: without a modifier, date() lets 30 February pass.
CREATE TABLE plants (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    room TEXT NOT NULL,
    every_days INTEGER NOT NULL CHECK (every_days > 0)
);
CREATE TABLE waterings (
    id INTEGER PRIMARY KEY,
    plant_id INTEGER NOT NULL REFERENCES plants (id),
    watered_on TEXT NOT NULL CHECK (watered_on IS date(watered_on, '+0 days')),
    created_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE INDEX waterings_by_plant ON waterings (plant_id, watered_on);
