-- INSERT INTO table (columns) VALUES rows, parents before children.
INSERT INTO plants (id, name, room, every_days) VALUES
(1, 'Monstera', 'Kitchen', 7),
(2, 'Snake plant', 'Meeting room', 21),
(3, 'Fern', 'Bathroom', 3),
(4, 'Aloe', 'Kitchen', 28);
INSERT INTO waterings (plant_id, watered_on, created_at) VALUES
(1, '2026-02-16', '2026-02-16 08:10:00'),
(1, '2026-02-23', '2026-02-23 08:05:00'),
(2, '2026-02-20', '2026-02-20 09:30:00'),
(3, '2026-02-25', '2026-02-25 08:15:00'),
(4, '2026-02-16', '2026-02-16 08:12:00');
