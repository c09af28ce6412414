-- ocr_status: 0 to do, 1 processing, 2 done, 3 error. 0 is the default of all
-- rows, also of those that are no pictures. Times are milliseconds; the present
-- is 1770724800000, 2026-02-10 12:00:00.
INSERT INTO resources (id, title, mime, filename, created_time, updated_time, `size`, ocr_text, ocr_status, ocr_error) VALUES
  ('00000000000000000000000000000001', 'scan', 'image/png', 'a.png', 1770724799999, 1770724799999, 10, '', 0, ''),
  ('0a1b2c3d4e5f60718293a4b5c6d7e8f9', 'letter', 'application/pdf', 'b.pdf', 1770721200000, 1770721200000, 20, '', 0, ''),
  ('0123456789abcdef0123456789abcdef', 'a song', 'audio/mpeg', 'c.mp3', 1770721200000, 1770721200000, 30, '', 0, ''),
  ('12345678901234567890123456789012', 'blurred', 'image/png', 'd.png', 1770717600001, 1770717600002, 40, '', 3, 'too dark'),
  ('1e000000000000000000000000000009', 'at work', 'image/png', 'e.png', 1770717600000, 1770717600000, 50, '', 1, ''),
  ('ffffffffffffffffffffffffffffffff', 'done', 'image/png', 'f.png', 1770631200000, 1770631200000, 60, 'a text', 2, ''),
  ('deadbeefdeadbeefdeadbeefdeadbeef', 'as old as the widest tier', 'application/pdf', 'g.pdf', 1770120000000, 1770120000000, 70, '', 0, ''),
  ('deadbeefdeadbeefdeadbeefdeadbee0', 'a millisecond too old', 'application/pdf', 'h.pdf', 1770119999999, 1770119999999, 80, '', 0, ''),
  ('abcdefabcdefabcdefabcdefabcdefab', 'no more luck', 'image/png', 'i.png', 1770638400000, 1770638400000, 90, 'half of it', 3, 'timeout'),
  ('0000000000000000000000000000000a', 'too large', 'application/pdf', 'j.pdf', 1770638400000, 1770638400000, 100, '', 0, ''),
  ('0000000000000000000000000000000A', 'ids are told apart by case', 'image/jpeg', 'k.jpg', 1770638400000, 1770638400000, 110, '', 0, '');
