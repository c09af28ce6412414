-- The actions of WordPress' Action Scheduler on MySQL and MariaDB, reduced. What
-- ends in _gmt is UTC; a zero date is none.
CREATE TABLE wp_actionscheduler_actions (
  action_id bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  hook varchar(191) NOT NULL,
  status varchar(20) NOT NULL,
  scheduled_date_gmt datetime NULL DEFAULT '0000-00-00 00:00:00',
  scheduled_date_local datetime NULL DEFAULT '0000-00-00 00:00:00',
  priority tinyint unsigned NOT NULL DEFAULT 10,
  args varchar(191) DEFAULT NULL,
  schedule longtext DEFAULT NULL,
  group_id bigint(20) unsigned NOT NULL DEFAULT 0,
  attempts int(11) NOT NULL DEFAULT 0,
  last_attempt_gmt datetime NULL DEFAULT '0000-00-00 00:00:00',
  last_attempt_local datetime NULL DEFAULT '0000-00-00 00:00:00',
  claim_id bigint(20) unsigned NOT NULL DEFAULT 0,
  extended_args varchar(8000) DEFAULT NULL,
  PRIMARY KEY (action_id),
  KEY hook_status_scheduled_date_gmt (hook(163), status, scheduled_date_gmt),
  KEY status_scheduled_date_gmt (status, scheduled_date_gmt),
  KEY claim_id_status_priority_scheduled_date_gmt (claim_id, status, priority, scheduled_date_gmt)
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_unicode_520_ci;
