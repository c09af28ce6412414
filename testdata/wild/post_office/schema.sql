-- The table of django-post_office as Django makes it on SQLite, reduced.
CREATE TABLE "post_office_email" (
  "id" integer NOT NULL PRIMARY KEY AUTOINCREMENT,
  "from_email" varchar(254) NOT NULL,
  "to" text NOT NULL,
  "subject" varchar(989) NOT NULL,
  "message" text NOT NULL,
  "status" smallint unsigned NULL CHECK ("status" >= 0),
  "priority" smallint unsigned NULL CHECK ("priority" >= 0),
  "created" datetime NOT NULL,
  "last_updated" datetime NOT NULL,
  "scheduled_time" datetime NULL,
  "expires_at" datetime NULL,
  "headers" text NULL CHECK ((JSON_VALID("headers") OR "headers" IS NULL)),
  "context" text NULL CHECK ((JSON_VALID("context") OR "context" IS NULL)),
  "backend_alias" varchar(64) NOT NULL,
  "number_of_retries" integer unsigned NULL CHECK ("number_of_retries" >= 0)
);
CREATE INDEX "post_office_email_status_013a896c" ON "post_office_email" ("status");
CREATE INDEX "post_office_email_created_1306952f" ON "post_office_email" ("created");
CREATE INDEX "post_office_email_last_updated_0ffcec35" ON "post_office_email" ("last_updated");
CREATE INDEX "post_office_email_scheduled_time_3869ebec" ON "post_office_email" ("scheduled_time");
CREATE INDEX "post_office_email_expires_at_4e5f3f3a" ON "post_office_email" ("expires_at");
