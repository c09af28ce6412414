-- The present is 2026-02-10 12:00:00 UTC.
INSERT INTO event_publication (id, listener_id, event_type, serialized_event, publication_date, completion_date) VALUES
  ('00000000-0000-0000-0000-000000000001', 'shop.Mails.on(OrderPlaced)', 'shop.OrderPlaced', '{"n": 12345678901234567890}', '2026-02-10 11:59:59.999999+00', NULL),
  ('FFFFFFFF-FFFF-4FFF-BFFF-FFFFFFFFFFFF', 'shop.Mails.on(OrderPlaced)', 'shop.OrderPlaced', '"it''s written from elsewhere"', '2026-02-10 17:00:00+05:30', NULL),
  ('8c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c01', 'shop.Bills.on(OrderPlaced)', 'shop.OrderPlaced', '{}', '2026-02-10 11:00:00+00', '2026-02-10 11:00:00.5+00'),
  ('8c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c02', 'shop.Bills.on(OrderPlaced)', 'shop.OrderPlaced', '{"fails": true}', '2026-02-10 10:00:00+00', NULL),
  ('8c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c03', 'shop.Bills.on(OrderPlaced)', 'shop.OrderPlaced', '{"rejected": true}', '2026-02-10 09:00:00+00', NULL),
  ('8c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c04', 'shop.Bills.on(OrderPaid)', 'shop.OrderPaid', '{"old": "as the widest tier"}', '2026-02-03 12:00:00+00', NULL),
  ('8c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c05', 'shop.Bills.on(OrderPaid)', 'shop.OrderPaid', '{"old": "a microsecond more"}', '2026-02-03 11:59:59.999999+00', NULL),
  ('8c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c06', 'shop.Bills.on(OrderPaid)', 'shop.OrderPaid', '{"deleted": "meanwhile"}', '2026-02-09 12:00:00-03', NULL),
  ('8c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c07', 'shop.Bills.on(OrderPaid)', 'shop.OrderPaid', '{"published": "meanwhile"}', '2026-02-09 12:00:00+00', NULL);
