-- The outgoing mails of Odoo on PostgreSQL, reduced. Its times have no zone and
-- are UTC; everything but the key may be NULL.
CREATE TABLE mail_mail (
  id serial PRIMARY KEY,
  mail_message_id integer,
  state varchar,
  failure_type varchar,
  failure_reason text,
  email_to text,
  "references" text,
  scheduled_date timestamp,
  auto_delete boolean,
  create_uid integer,
  create_date timestamp,
  write_uid integer,
  write_date timestamp
);
CREATE INDEX mail_mail_mail_message_id_index ON mail_mail (mail_message_id);
CREATE INDEX mail_mail_state_index ON mail_mail (state);
