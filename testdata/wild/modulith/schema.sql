-- The outbox of Spring Modulith on PostgreSQL, reduced. An event without a date of
-- completion is yet to be published.
CREATE TABLE event_publication (
  id uuid NOT NULL,
  listener_id varchar(512) NOT NULL,
  event_type varchar(512) NOT NULL,
  serialized_event varchar(4000) NOT NULL,
  publication_date timestamp with time zone NOT NULL,
  completion_date timestamp with time zone,
  PRIMARY KEY (id)
);
CREATE INDEX event_publication_serialized_event_hash_idx ON event_publication USING hash (serialized_event);
CREATE INDEX event_publication_by_completion_date_idx ON event_publication (completion_date);
