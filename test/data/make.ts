// Makes the stored data file of the current schema, test/data/schema-N.db: what a server of that release leaves
// when it is killed, with leases, sessions, request ids, bearer tokens, audit, feed, and a part of it still in the
// log. Run it once per schema, at its release, and commit the file; later programs must open it for ever.
//   npm run build && node dist/test/data/make.js
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { decideAcquire } from "../../src/core/acquire.js";
import type { Decision, View } from "../../src/core/decision.js";
import { policyDefault } from "../../src/core/limits.js";
import { decideForceRelease, decideRelease } from "../../src/core/release.js";
import { decideStartSession } from "../../src/core/session.js";
import { decideCreateToken } from "../../src/core/token.js";
import { openDatabase } from "../../src/engines/sqlite/binding.js";
import { openSqlite } from "../../src/engines/sqlite/open.js";
import { schemaVersion } from "../../src/engines/sqlite/schema.js";
import { claim, space, TurnedClocks } from "../store-lab.js";

const dir = mkdtempSync(join(tmpdir(), "holdfast-make-"));
const path = join(dir, "data.db");
const copy = join(dir, "copy.db");
const clocks = new TurnedClocks();
let store = await openSqlite({ path, clocks });
const run = <Reply>(decide: (view: View) => Decision<Reply>): Promise<Reply> => store.transact([], decide);
const take = (name: string, leaseId: string, changes = {}) =>
  run((view) => decideAcquire(view, claim(name, { leaseId, ...changes }), policyDefault));

// In the tree.
await run((view) =>
  decideStartSession(
    view,
    { id: "session-1", hash: "hash-1", space, principal: "runner-1", metadata: { host: "a" }, ttlMs: 600_000 },
    policyDefault,
  ),
);
await take("bound", "lease-bound", { sessionId: "session-1", ttlMs: null });
await take("job", "lease-job-1", { ttlMs: 3_600_000 });
await run((view) =>
  decideRelease(
    view,
    { space, name: "job", principal: "runner-1", leaseId: "lease-job-1", outcome: "done", note: "fine", repeatable: true },
    policyDefault,
  ),
);
await take("delayed", "lease-delayed", { delayMs: 30_000 });
await run((view) =>
  decideForceRelease(view, { space, name: "delayed", by: "admin", reason: "stuck", auditId: "audit-1", wallAt: clocks.wallAt }, policyDefault),
);
await run((view) =>
  decideCreateToken(
    view,
    { id: "token-1", space: "team", name: "ci", hash: "ab".repeat(32), role: "worker", scopes: ["ci-*"], reentrant: true, expiresInMs: null },
    { by: "admin", auditId: "audit-2", wallAt: clocks.wallAt },
    policyDefault,
  ),
);
await store.close();

// In the log.
clocks.pass(5_000);
store = await openSqlite({ path, clocks });
await take("job", "lease-job-2", { ttlMs: 3_600_000, request: { id: "request-1", fingerprint: "print-1" }, metadata: "größe 100%" });
await take("path:docs/größe 100%.txt", "lease-path", { principal: "runner-2", ttlMs: 7_200_000 });
// By another process: closing the file in this one would drop SQLite's locks.
execFileSync("sh", ["-c", 'cp "$1" "$2" && cp "$1-wal" "$2-wal"', "cp", path, copy]);
await store.close();
const database = openDatabase(copy);
database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
const [rows] = Object.values(database.prepare("SELECT count(*) FROM log").get() ?? {});
database.close();
if (rows !== 2) throw new Error("the log was moved into the tree too soon: try again");
const target = fileURLToPath(new URL(`../../../test/data/schema-${schemaVersion}.db`, import.meta.url));
if (existsSync(target)) throw new Error(`${target} exists: a released file is never made again`);
copyFileSync(copy, target);
rmSync(dir, { recursive: true });
