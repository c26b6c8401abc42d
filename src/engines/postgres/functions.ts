/**
 * What runs inside the database, as functions, so that a reading is one statement and a commit one round trip, planned once
 * for each connection. A function is never changed once a release had it: another gets another name, so that servers of two
 * releases can work side by side.
 */

/** Planned for tables of any size: a plan made when they were empty must not be kept while they grow. */
const planned =
  "SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan";

/** How long a commit waits for those before it, in ms: well below a call's deadline, so that the answer is certain. */
const lockMs = 3000;

/**
 * Which database this is, and how often it was taken over from another: fails on a standby that only follows. The table counts as
 * well as the database and its server: one that was loaded from a dump is another, also where the dump was made. Not in plain
 * SQL, which would be planned at every call.
 */
const here = (schema: string): string => `
CREATE FUNCTION ${schema}.here(OUT system text, OUT timeline bigint) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  SELECT concat_ws('.', c.system_identifier, d.oid, '${schema}.state'::regclass::oid) INTO STRICT system
    FROM pg_control_system() c, pg_database d WHERE d.datname = current_database();
  timeline := ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::bigint;
END $$`;

/**
 * Rows of four kinds: 0 what the database was when it was written to last and what it is now, with the revision; 1 where the
 * data was moved, with the clock; 2 a record; from 3 on the entries of each range. STABLE, so all of it is of one moment.
 */
const readBatch = (schema: string): string => `
CREATE FUNCTION ${schema}.read_batch(keys text[], froms text[], tos text[], limits int[])
RETURNS TABLE (kind int, a text, b text, n bigint) LANGUAGE plpgsql STABLE ${planned} AS $$
BEGIN
  RETURN QUERY SELECT 0, s.system || '/' || s.timeline, h.system || '/' || h.timeline, s.revision
    FROM ${schema}.state s, ${schema}.here() h;
  RETURN QUERY SELECT 1, s.moved, NULL::text, c.value FROM ${schema}.state s, ${schema}.clock c;
  IF cardinality(keys) > 0 THEN
    RETURN QUERY SELECT 2, r.key, r.record, r.rev FROM ${schema}.records r WHERE r.key = ANY (keys);
  END IF;
  IF cardinality(froms) > 0 THEN
    RETURN QUERY SELECT 2 + g.i::int, e.entry, e.key, NULL::bigint
      FROM unnest(froms, tos, limits) WITH ORDINALITY g(f, t, l, i),
      LATERAL (SELECT x.entry, x.key FROM ${schema}.entries x WHERE x.entry >= g.f AND x.entry < g.t
        ORDER BY x.entry LIMIT g.l) e;
  END IF;
END $$`;

/**
 * All of a commit. The lock puts commits in one order, which is also the feed's. Every statement after it has a snapshot of its
 * own, which READ COMMITTED and VOLATILE make so: what was committed while it waited is compared with. Before the comparison
 * nothing is written, so that a lost race costs no sync.
 */
const commitBatch = (schema: string): string => `
CREATE FUNCTION ${schema}.commit_batch(seen bigint, keys text[], revs bigint[],
  froms text[], tos text[], rows text[], put_keys text[], put_records text[], gone_keys text[],
  put_entries text[], entry_keys text[], gone_entries text[], told text, told_count int, token bigint)
RETURNS text LANGUAGE plpgsql VOLATILE ${planned} SET lock_timeout = '${lockMs}ms' AS $$
DECLARE
  s ${schema}.state;
  h record;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN RETURN 'isolation'; END IF;
  IF current_setting('fsync') <> 'on' THEN RETURN 'fsync'; END IF;
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  PERFORM pg_advisory_xact_lock(hashtext('${schema}'), 1);
  SELECT * INTO STRICT s FROM ${schema}.state;
  SELECT * INTO STRICT h FROM ${schema}.here();
  IF s.moved IS NOT NULL THEN RETURN 'moved'; END IF;
  IF h.timeline < seen THEN RETURN 'old'; END IF;
  IF s.system <> h.system OR s.timeline <> h.timeline THEN RETURN 'lineage'; END IF;
  IF EXISTS (SELECT 1 FROM unnest(keys, revs) c(key, rev)
    LEFT JOIN ${schema}.records r ON r.key = c.key WHERE coalesce(r.rev, 0) <> c.rev) THEN
    RETURN 'changed';
  END IF;
  IF cardinality(froms) > 0 AND EXISTS (SELECT 1 FROM unnest(froms, tos, rows) g(f, t, r)
    WHERE g.r <> (SELECT coalesce(string_agg(e.entry || chr(31) || e.key, chr(30) ORDER BY e.entry), '')
      FROM ${schema}.entries e WHERE e.entry >= g.f AND e.entry < g.t)) THEN
    RETURN 'changed';
  END IF;
  UPDATE ${schema}.state SET revision = revision + 1, last_event = last_event + told_count,
    token_high = greatest(token_high, token) WHERE revision = s.revision RETURNING * INTO STRICT s;
  IF cardinality(gone_keys) > 0 THEN
    DELETE FROM ${schema}.records WHERE key = ANY (gone_keys);
  END IF;
  IF cardinality(put_keys) > 0 THEN
    INSERT INTO ${schema}.records (key, record, rev)
      SELECT p.key, p.record, s.revision FROM unnest(put_keys, put_records) p(key, record)
      ON CONFLICT (key) DO UPDATE SET record = excluded.record, rev = excluded.rev;
  END IF;
  IF cardinality(gone_entries) > 0 THEN
    DELETE FROM ${schema}.entries WHERE entry = ANY (gone_entries);
  END IF;
  IF cardinality(put_entries) > 0 THEN
    INSERT INTO ${schema}.entries (entry, key) SELECT * FROM unnest(put_entries, entry_keys)
      ON CONFLICT (entry) DO UPDATE SET key = excluded.key;
  END IF;
  IF told_count > 0 THEN
    INSERT INTO ${schema}.feed (last, count, at, events)
      VALUES (s.last_event, told_count, (SELECT value FROM ${schema}.clock), told);
  END IF;
  RETURN 'done';
END $$`;

/** Need not be durable: nothing that was decided by it can be without it, and what is lost makes leases longer. */
const tick = (schema: string): string => `
CREATE FUNCTION ${schema}.tick(from_value bigint, to_value bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE v bigint;
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  UPDATE ${schema}.clock SET value = to_value, wall_at = clock_timestamp() WHERE value = from_value
    RETURNING value INTO v;
  IF v IS NULL THEN SELECT value INTO v FROM ${schema}.clock; END IF;
  RETURN v;
END $$`;

/** Every row that holds an event above \`after\`, up to \`most\` events, with what the feed begins and ends with. */
const readFeed = (schema: string): string => `
CREATE FUNCTION ${schema}.read_feed(after bigint, most int)
RETURNS TABLE (last bigint, count int, events text) LANGUAGE plpgsql STABLE ${planned} AS $$
BEGIN
  RETURN QUERY SELECT s.last_event, 0,
    coalesce((SELECT f.last - f.count FROM ${schema}.feed f ORDER BY f.last LIMIT 1), s.last_event)::text
    FROM ${schema}.state s;
  RETURN QUERY SELECT p.last, p.count, p.events FROM
    (SELECT f.last, f.count, f.events, sum(f.count) OVER (ORDER BY f.last) - f.count AS before
      FROM (SELECT * FROM ${schema}.feed x WHERE x.last > after ORDER BY x.last LIMIT most) f) p
    WHERE p.before < most ORDER BY p.last;
END $$`;

/** Removes rows from the old end of the feed, few at a time; returns how many. */
const trimFeed = (schema: string): string => `
CREATE FUNCTION ${schema}.trim_feed(keep bigint, age_ms bigint, most int) RETURNS bigint
LANGUAGE plpgsql VOLATILE ${planned} SET lock_timeout = '${lockMs}ms' AS $$
DECLARE
  n bigint;
  cut bigint := (SELECT last_event - keep FROM ${schema}.state);
  old bigint := (SELECT value - age_ms FROM ${schema}.clock);
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  DELETE FROM ${schema}.feed WHERE last = ANY (ARRAY(SELECT o.last FROM
    (SELECT f.last, f.at FROM ${schema}.feed f ORDER BY f.last LIMIT most) o WHERE o.last <= cut OR o.at < old));
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n;
END $$`;

/**
 * The database was taken over from another: what was lost on the way must never come again as something else. What is numbered
 * goes on at `given`, or above it by `lift` (core/copies.ts).
 */
const adopt = (schema: string): string => `
CREATE FUNCTION ${schema}.adopt(was text, at_revision bigint, given bigint, lift bigint, token bigint,
  put_keys text[], put_records text[])
RETURNS text LANGUAGE plpgsql VOLATILE ${planned} SET lock_timeout = '${lockMs}ms' AS $$
DECLARE
  s ${schema}.state;
  h record;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN RETURN 'isolation'; END IF;
  PERFORM pg_advisory_xact_lock(hashtext('${schema}'), 1);
  SELECT * INTO STRICT s FROM ${schema}.state;
  SELECT * INTO STRICT h FROM ${schema}.here();
  IF s.system || '/' || s.timeline <> was OR s.revision <> at_revision OR s.system <> h.system THEN
    RETURN 'changed';
  END IF;
  UPDATE ${schema}.state SET
    revision = CASE WHEN revision < given THEN given ELSE revision + lift END,
    last_event = CASE WHEN last_event < given THEN given ELSE last_event + lift END,
    token_high = greatest(token_high, token), timeline = h.timeline RETURNING * INTO STRICT s;
  INSERT INTO ${schema}.records (key, record, rev)
    SELECT p.key, p.record, s.revision FROM unnest(put_keys, put_records) p(key, record)
    ON CONFLICT (key) DO UPDATE SET record = excluded.record, rev = excluded.rev;
  DELETE FROM ${schema}.feed;
  RETURN 'done';
END $$`;

/** For ever: servers that look here are sent elsewhere. */
const seal = (schema: string): string => `
CREATE FUNCTION ${schema}.seal(place text) RETURNS text LANGUAGE plpgsql VOLATILE
SET lock_timeout = '${lockMs}ms' AS $$
DECLARE m text;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('${schema}'), 1);
  UPDATE ${schema}.state SET moved = coalesce(moved, place) RETURNING moved INTO STRICT m;
  RETURN m;
END $$`;

export const functionsOf = (schema: string): readonly string[] =>
  [here, readBatch, commitBatch, tick, readFeed, trimFeed, adopt, seal].map((make) => make(schema));
