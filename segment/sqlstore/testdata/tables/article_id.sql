-- The table as articles after that one have it: an id is the primary key, biz_tag merely a key, and times
-- have no default.
CREATE DATABASE leaf;
CREATE TABLE `leaf_alloc` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `biz_tag` varchar(128) NOT NULL DEFAULT '',
  `max_id` bigint(20) NOT NULL DEFAULT '1',
  `step` int(11) NOT NULL,
  `desc` varchar(256) DEFAULT NULL,
  `create_time` datetime NOT NULL,
  `datetime` datetime DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `biz_tag` (`biz_tag`)
) ENGINE=InnoDB;
