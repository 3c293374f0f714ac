-- What was deleted when, over the view `edits`. An OP_DELETE names no user; it names the client that asked for it, by an
-- id that a process keeps while it runs, and that process acts for one user as a rule. So there are two hints, and both
-- may be null: as whom the same client created something, and who created what was deleted, if that still had the name
-- it was made under. Whoever must be certain needs the NameNode's audit log.
WITH made AS (
  SELECT txid, path, rpc_client_id, username FROM edits WHERE op IN ('OP_ADD', 'OP_SYMLINK', 'OP_MKDIR')
),
clients AS (
  SELECT rpc_client_id, array_join(sort_array(collect_set(username)), ',') AS users
  FROM made WHERE rpc_client_id IS NOT NULL GROUP BY rpc_client_id
)
SELECT d.txid, d.timestamp, d.path, d.rpc_client_id,
       any_value(c.users) AS client_also_created_files_as,
       max_by(m.username, m.txid) AS created_by
FROM edits d
LEFT JOIN clients c ON c.rpc_client_id = d.rpc_client_id
LEFT JOIN made m ON m.path = d.path AND m.txid < d.txid
WHERE d.op = 'OP_DELETE'
GROUP BY d.txid, d.timestamp, d.path, d.rpc_client_id
ORDER BY d.txid
