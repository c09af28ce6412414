-- States: outgoing, exception, sent, cancel, received. The present is 2026-02-10
-- 12:00:00.
INSERT INTO mail_mail
  (id, mail_message_id, state, failure_type, failure_reason, email_to, "references", scheduled_date, auto_delete, create_uid, create_date, write_uid, write_date)
VALUES
  (1, 101, 'sent', NULL, NULL, 'b@example.org', NULL, NULL, false, 2, '2026-02-10 08:00:00.123456', 2, '2026-02-10 08:00:05'),
  (2, 102, 'outgoing', NULL, NULL, 'just now <b@example.org>', '<1@example.org>', NULL, false, 2, '2026-02-10 11:59:59.999999', 2, '2026-02-10 11:59:59.999999'),
  (3, 103, 'outgoing', NULL, NULL, 'it''s scheduled for later', NULL, '2026-02-10 12:00:00.000001', false, 2, '2026-02-10 11:00:00', 2, '2026-02-10 11:00:00'),
  (4, 104, 'outgoing', NULL, NULL, 'scheduled for now', NULL, '2026-02-10 12:00:00', false, 2, '2026-02-10 10:30:00', 2, '2026-02-10 10:30:00'),
  (5, 105, 'exception', 'mail_smtp', 'Connection refused', 'failed before', NULL, NULL, false, 2, '2026-02-09 07:15:00.5', 2, '2026-02-10 11:30:00'),
  (6, 106, 'exception', NULL, NULL, 'failed before, and has luck', NULL, NULL, NULL, NULL, '2026-02-08 07:15:00', NULL, NULL),
  (7, 107, 'cancel', NULL, NULL, 'cancelled', NULL, NULL, false, 2, '2026-02-10 09:00:00', 2, '2026-02-10 09:01:00'),
  (8, 108, 'received', NULL, NULL, 'none of ours', NULL, NULL, false, 2, '2026-02-10 09:00:00', 2, '2026-02-10 09:00:00'),
  (9, 109, NULL, NULL, NULL, 'no state at all', NULL, NULL, false, 2, '2026-02-10 09:00:00', 2, '2026-02-10 09:00:00'),
  (10, 110, 'outgoing', NULL, NULL, 'no date: as old as the widest tier, never dead by age', NULL, NULL, false, NULL, NULL, NULL, NULL),
  (11, 111, 'outgoing', NULL, NULL, 'a microsecond older than the widest tier', NULL, NULL, false, 2, '2026-02-03 11:59:59.999999', 2, '2026-02-03 12:00:00'),
  (12, 112, 'outgoing', NULL, NULL, 'as old as the widest tier', NULL, NULL, false, 2, '2026-02-03 12:00:00', 2, '2026-02-03 12:00:00'),
  (13, 113, 'outgoing', NULL, NULL, 'deleted once it is sent', NULL, NULL, true, 2, '2026-02-10 08:30:00', 2, '2026-02-10 08:30:00'),
  (14, 114, 'outgoing', NULL, NULL, 'cancelled by its author while it is sent', NULL, NULL, false, 2, '2026-02-10 08:00:00', 2, '2026-02-10 08:00:00'),
  (15, 115, 'outgoing', NULL, NULL, 'no such address', NULL, NULL, false, 2, '2026-02-10 07:00:00', 2, '2026-02-10 07:00:00'),
  (16, 116, 'outgoing', NULL, NULL, 'refused for now', NULL, NULL, false, 2, '2026-02-10 06:00:00', 2, '2026-02-10 06:00:00');
SELECT setval('mail_mail_id_seq', 16);
