-- The segments of leafd on MySQL (5.7 or later) or MariaDB (10.5 or later):
--
--     mysql -u root -p < leaf_alloc.sql
--     leafd serve --mysql 'leafd:PASSWORD@tcp(db.example:3306)/leaf'
--
-- It is the Java Leaf's table. One that the Java Leaf has created works unchanged,
-- and both daemons may use it at once. The differences here:
--
--   biz_tag  utf8mb4_bin: tags that differ in case alone are two tags, and tags
--            in any language fit. With another collation leafd still never takes
--            one tag for another, but the table holds only one of 'Order' and
--            'order'. Trailing spaces don't make two tags in either case.
--   step     BIGINT, so that a step may pass 2147483647.
--
-- InnoDB is needed: on an engine without transactions two clients can get one
-- range, and leafd refuses to use it. The tables of the articles about Leaf do as well:
-- an id as primary key, with a key on biz_tag; desc for description, or neither.

CREATE DATABASE IF NOT EXISTS leaf;

USE leaf;

CREATE TABLE IF NOT EXISTS leaf_alloc (
  -- The tag, the {key} of GET /api/segment/get/{key}: up to 128 characters.
  biz_tag varchar(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  -- The first ID that is not given to anybody yet. It only ever grows: set back
  -- by hand, by a restored backup or by a lagging replica, it would give out IDs
  -- a second time. A tag whose max_id leafd has seen higher is moved on.
  max_id bigint NOT NULL DEFAULT 1,
  -- The smallest range that a daemon takes at once, 1 or more. Daemons take more
  -- while a range lasts less than 15 minutes, and where requests wait for IDs.
  -- What is left of a range when a daemon ends is lost: a gap, never a repeat.
  step bigint NOT NULL,
  description varchar(256) CHARACTER SET utf8mb4 DEFAULT NULL,
  update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (biz_tag)
) ENGINE=InnoDB;

-- A tag to try leafd with. Add your own the same way, or with
-- `leafd segment create`.
INSERT IGNORE INTO leaf_alloc (biz_tag, max_id, step, description)
  VALUES ('leaf-segment-test', 1, 2000, 'Test leaf Segment Mode Get Id');

-- What leafd needs, and no more. Without INSERT and DELETE it serves all the
-- same; only creating and deleting tags through it fails.
--
--   CREATE USER 'leafd'@'%' IDENTIFIED BY 'PASSWORD';
--   GRANT SELECT, INSERT, UPDATE, DELETE ON leaf.leaf_alloc TO 'leafd'@'%';
