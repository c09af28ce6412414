-- Statuses: 0 sent, 1 failed, 2 queued, 3 requeued; NULL is a draft. Django
-- writes UTC without saying so, and a fraction only where it is not zero. The
-- present is 2026-02-10 12:00:00.
INSERT INTO "post_office_email"
  ("id", "from_email", "to", "subject", "message", "status", "priority", "created", "last_updated", "scheduled_time", "expires_at", "headers", "context", "backend_alias", "number_of_retries")
VALUES
  (1, 'a@example.org', 'b@example.org', 'sent long ago', '', 0, 2, '2026-02-01 08:00:00.123456', '2026-02-01 08:00:05', NULL, NULL, NULL, NULL, 'default', NULL),
  (2, 'a@example.org', 'b@example.org', 'queued', 'Grüße', 2, 2, '2026-02-10 11:59:59.999999', '2026-02-10 11:59:59.999999', NULL, NULL, '{"Reply-To": "c@example.org"}', '{"n": 12345678901234567890}', 'default', NULL),
  (3, 'a@example.org', 'b@example.org', 'queued, no fraction', '', 2, 0, '2026-02-10 11:00:00', '2026-02-10 11:00:00', NULL, NULL, NULL, NULL, 'default', 0),
  (4, 'a@example.org', 'b@example.org', 'a draft', '', NULL, NULL, '2026-02-10 11:30:00', '2026-02-10 11:30:00', NULL, NULL, NULL, NULL, 'default', NULL),
  (5, 'a@example.org', 'b@example.org', 'requeued', 'it''s', 3, 1, '2026-02-09 10:00:00.500000', '2026-02-10 10:00:00', NULL, NULL, NULL, NULL, 'default', 4),
  (6, 'a@example.org', 'b@example.org', 'scheduled for later', '', 2, 1, '2026-02-10 10:00:00', '2026-02-10 10:00:00', '2026-02-10 12:00:00.000001', NULL, NULL, NULL, 'default', NULL),
  (7, 'a@example.org', 'b@example.org', 'scheduled for now', '', 2, 1, '2026-02-10 09:00:00', '2026-02-10 09:00:00', '2026-02-10 12:00:00', NULL, NULL, NULL, 'default', NULL),
  (8, 'a@example.org', 'b@example.org', 'expired just now', '', 2, 1, '2026-02-10 11:10:00', '2026-02-10 11:10:00', NULL, '2026-02-10 11:59:59.999999', NULL, NULL, 'default', NULL),
  (9, 'a@example.org', 'b@example.org', 'expires now', '', 3, 1, '2026-02-10 08:00:00', '2026-02-10 09:00:00', NULL, '2026-02-10 12:00:00', NULL, NULL, 'default', 1),
  (10, 'a@example.org', 'nobody', 'queued, will be rejected', '', 2, 1, '2026-02-10 07:00:00', '2026-02-10 07:00:00', NULL, NULL, NULL, NULL, 'default', NULL),
  (11, 'a@example.org', 'b@example.org', 'failed for good', '', 1, 1, '2026-02-10 06:00:00', '2026-02-10 06:30:00', NULL, NULL, NULL, NULL, 'default', 3),
  (12, 'a@example.org', 'b@example.org', 'older than every tier', '', 2, 1, '2026-02-03 11:59:59.999999', '2026-02-03 12:00:00', NULL, NULL, NULL, NULL, 'default', NULL),
  (13, 'a@example.org', 'b@example.org', 'as old as the widest tier', '', 2, 1, '2026-02-03 12:00:00', '2026-02-03 12:00:00', NULL, NULL, NULL, NULL, 'default', NULL),
  (14, 'a@example.org', 'b@example.org', 'requeued and expired', '', 3, 1, '2026-02-09 07:00:00', '2026-02-09 08:00:00', NULL, '2026-02-09 09:00:00', NULL, NULL, 'default', 2),
  (15, 'a@example.org', 'b@example.org', 'the server is busy', '', 2, 1, '2026-02-10 05:00:00', '2026-02-10 05:00:00', NULL, NULL, NULL, NULL, 'default', NULL);
