-- The site is in Kolkata, five and a half hours ahead of UTC: the present is
-- 2026-02-10 17:30:00.
INSERT INTO `tabEmail Queue`
  (name, creation, modified, owner, sender, message, status, error, send_after, priority, retry)
VALUES
  ('1f0c9a7b21', '2026-02-10 17:29:59.999999', '2026-02-10 17:29:59.999999', 'Administrator', 'a@example.org', 'just now', 'Not Sent', NULL, NULL, 1, 0),
  ('2a b/c#d', '2026-02-10 17:00:00.000000', '2026-02-10 17:00:00.000000', 'Guest', NULL, 'a key as people name things', 'Not Sent', '', NULL, 1, 0),
  ('Grüße 3', '2026-02-10 16:00:00.000001', '2026-02-10 16:00:00.000001', 'Guest', NULL, 'no such address', 'Not Sent', NULL, NULL, 1, 0),
  ('4-later', '2026-02-10 12:30:00.000000', '2026-02-10 12:30:00.000000', 'Guest', NULL, 'later by a microsecond', 'Not Sent', NULL, '2026-02-10 17:30:00.000001', 1, 0),
  ('5-now', '2026-02-10 12:30:00.000000', '2026-02-10 12:30:00.000000', 'Guest', NULL, 'now', 'Not Sent', NULL, '2026-02-10 17:30:00.000000', 1, 0),
  ('6', '2026-02-10 12:00:00.000000', '2026-02-10 12:00:00.000000', 'Guest', NULL, 'being sent', 'Sending', NULL, NULL, 1, 0),
  ('7', '2026-02-09 12:00:00.000000', '2026-02-10 12:00:00.000000', 'Guest', NULL, 'some have it', 'Partially Sent', 'timed out', NULL, 1, 2),
  ('8', '2026-02-08 12:00:00.000000', '2026-02-10 12:00:00.000000', 'Guest', NULL, 'some have it, soon all', 'Partially Sent', 'timed out', NULL, 1, 1),
  ('9', '2026-02-08 12:00:00.000000', '2026-02-10 12:00:00.000000', 'Guest', NULL, 'sent', 'Sent', NULL, NULL, 1, 0),
  ('a', '2026-02-08 12:00:00.000000', '2026-02-10 12:00:00.000000', 'Guest', NULL, 'given up', 'Error', 'gone', NULL, 1, 3),
  ('b', '2026-02-03 17:30:00.000000', '2026-02-03 17:30:00.000000', 'Guest', NULL, 'as old as the widest tier', 'Not Sent', NULL, NULL, 1, 0),
  ('c', '2026-02-03 17:29:59.999999', '2026-02-03 17:30:00.000000', 'Guest', NULL, 'a microsecond older', 'Not Sent', NULL, NULL, 1, 0),
  ('d', NULL, NULL, NULL, NULL, 'no date', 'Not Sent', NULL, NULL, 1, 0),
  ('e', '2026-02-10 11:00:00.000000', '2026-02-10 11:00:00.000000', 'Guest', NULL, 'no status', NULL, NULL, NULL, 1, 0),
  ('f', '2026-02-10 11:00:00.000000', '2026-02-10 11:00:00.000000', 'Guest', NULL, 'refused for now', 'Not Sent', NULL, NULL, 1, 0),
  ('g', '2026-02-10 10:00:00.000000', '2026-02-10 10:00:00.000000', 'Guest', NULL, 'sent by somebody else meanwhile', 'Not Sent', NULL, NULL, 1, 0),
  ('h', '2026-02-10 09:00:00.000000', '2026-02-10 09:00:00.000000', 'Guest', NULL, 'deleted meanwhile', 'Not Sent', NULL, NULL, 1, 0);
