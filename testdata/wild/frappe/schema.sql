-- The outgoing mails of Frappe and ERPNext on MariaDB, reduced. Times have no zone
-- and are those of the site.
CREATE TABLE `tabEmail Queue` (
  `name` varchar(140) NOT NULL,
  `creation` datetime(6) DEFAULT NULL,
  `modified` datetime(6) DEFAULT NULL,
  `modified_by` varchar(140) DEFAULT NULL,
  `owner` varchar(140) DEFAULT NULL,
  `docstatus` tinyint NOT NULL DEFAULT 0,
  `idx` int(8) NOT NULL DEFAULT 0,
  `sender` varchar(140) DEFAULT NULL,
  `message` longtext DEFAULT NULL,
  `status` varchar(140) DEFAULT 'Not Sent',
  `error` longtext DEFAULT NULL,
  `send_after` datetime(6) DEFAULT NULL,
  `priority` int(11) NOT NULL DEFAULT 1,
  `retry` int(11) NOT NULL DEFAULT 0,
  PRIMARY KEY (`name`),
  KEY `creation` (`creation`),
  KEY `modified` (`modified`),
  KEY `status` (`status`),
  KEY `index_bulk_flush` (`status`, `send_after`, `priority`, `creation`)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_unicode_ci;
