-- The table of attachments of Joplin's desktop application, reduced; with the
-- columns that its migrations have added, as they wrote them.
CREATE TABLE resources (
  id TEXT PRIMARY KEY,
  title TEXT NOT NULL DEFAULT "",
  mime TEXT NOT NULL,
  filename TEXT NOT NULL DEFAULT "",
  created_time INT NOT NULL,
  updated_time INT NOT NULL
, encryption_cipher_text TEXT NOT NULL DEFAULT "", encryption_applied INT NOT NULL DEFAULT 0, `size` INT NOT NULL DEFAULT -1, ocr_text TEXT NOT NULL DEFAULT "", ocr_details TEXT NOT NULL DEFAULT "", ocr_status INT NOT NULL DEFAULT 0, ocr_error TEXT NOT NULL DEFAULT "");
CREATE INDEX resources_updated_time ON resources (updated_time);
CREATE INDEX resources_size ON resources(size);
