-- What was deleted when, over the view `edits`. An OP_DELETE names no user; it names the client that asked for it, by an
-- id that a process keeps while it runs, and that process acts for one user as a rule. So there are two hints, and both
-- may be null: as whom the same client created something, and who created what had the name when it was deleted, also
-- if it was renamed once since. Whoever must be certain needs the NameNode's audit log.
--
-- Not seen: what goes without an OP_DELETE (moved to the trash, of which only the emptying is one; overwritten by a new
-- file or a renaming; the sources of a concat; what a deleted directory held), and what came to its name another way
-- than by being made or renamed itself, once: where it was renamed twice, created_by is null; where a directory above it
-- was renamed, created_by is null or who had the name before.
--
-- The view is read several times: cache it, with no columns but those that are named here.
WITH events AS (  -- all that ever happened to a name; of these ops, those have a username that make something there
  SELECT txid, path AS name, username AS made_by, NULL AS came_from FROM edits
  WHERE op IN ('OP_ADD', 'OP_MKDIR', 'OP_SYMLINK', 'OP_DELETE', 'OP_RENAME_OLD', 'OP_RENAME')
  UNION ALL
  SELECT txid, target, NULL, path FROM edits WHERE op IN ('OP_RENAME_OLD', 'OP_RENAME')
),
history AS (  -- the event before each: what was there at that moment
  SELECT txid, name, lag(struct(txid, made_by, came_from)) OVER (PARTITION BY name ORDER BY txid) AS before
  FROM events
),
clients AS (
  SELECT rpc_client_id, array_join(sort_array(collect_set(username)), ',') AS users
  FROM edits WHERE op IN ('OP_ADD', 'OP_SYMLINK') AND rpc_client_id IS NOT NULL GROUP BY rpc_client_id
)
SELECT d.txid, d.timestamp, d.path, d.rpc_client_id,
       c.users AS client_also_created_files_as,
       coalesce(here.before.made_by, there.before.made_by) AS created_by
FROM edits d
LEFT JOIN clients c ON c.rpc_client_id = d.rpc_client_id
LEFT JOIN history here ON here.txid = d.txid AND here.name = d.path
LEFT JOIN history there ON there.txid = here.before.txid AND there.name = here.before.came_from
WHERE d.op = 'OP_DELETE'
ORDER BY d.txid
