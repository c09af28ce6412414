-- The table of django-post_office as Django makes it on MySQL and MariaDB,
-- reduced. Times have no zone and are UTC.
CREATE TABLE `post_office_email` (
  `id` integer AUTO_INCREMENT NOT NULL PRIMARY KEY,
  `from_email` varchar(254) NOT NULL,
  `to` longtext NOT NULL,
  `subject` varchar(989) NOT NULL,
  `message` longtext NOT NULL,
  `status` smallint UNSIGNED NULL CHECK (`status` >= 0),
  `priority` smallint UNSIGNED NULL CHECK (`priority` >= 0),
  `created` datetime(6) NOT NULL,
  `last_updated` datetime(6) NOT NULL,
  `scheduled_time` datetime(6) NULL,
  `expires_at` datetime(6) NULL,
  `headers` longtext NULL CHECK (JSON_VALID(`headers`)),
  `context` longtext NULL CHECK (JSON_VALID(`context`)),
  `backend_alias` varchar(64) NOT NULL,
  `number_of_retries` integer UNSIGNED NULL CHECK (`number_of_retries` >= 0)
);
CREATE INDEX `post_office_email_status_013a896c` ON `post_office_email` (`status`);
CREATE INDEX `post_office_email_created_1306952f` ON `post_office_email` (`created`);
CREATE INDEX `post_office_email_last_updated_0ffcec35` ON `post_office_email` (`last_updated`);
CREATE INDEX `post_office_email_scheduled_time_3869ebec` ON `post_office_email` (`scheduled_time`);
CREATE INDEX `post_office_email_expires_at_4e5f3f3a` ON `post_office_email` (`expires_at`);
