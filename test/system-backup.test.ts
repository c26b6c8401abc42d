// holdfast backup while the server runs, and holdfast restore into a new place: a restored server never hands out
// a token twice nor a lease beside one that may still be out there.
import assert from "node:assert/strict";
import { copyFileSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { adminToken, call, type Server, startServer, temporaryDir } from "./server.js";
import { type Body, Client, eventOf, logLines, watching } from "./system-client.js";
import { type Ended, holdfast } from "./system-program.js";

/** The longest TTL granted: how long a restored server grants nothing. Above what a slow start takes. */
const ttlSeconds = 8;
const hot = "hot";

describe("a backup of a running server", () => {
  const dir = temporaryDir("holdfast-backup-");
  const backup = join(dir, "copy.db");
  let server: Server;
  let client: Client;
  const held: Body[] = [];
  let session = "";
  let lastEventId = "";
  /** The highest token that the original ever granted for the contended name. */
  let highest = 0;

  const asAdmin = (url: string) => ({ HOLDFAST_URL: url, HOLDFAST_TOKEN: adminToken });
  const grant = async (name: string, more: object = {}): Promise<Body> => {
    const { body } = await client.acquire(name, { ttl_seconds: ttlSeconds, ...more });
    assert.equal(body.status, "acquired", JSON.stringify(body));
    return body;
  };
  const turnOver = async (times: number): Promise<void> => {
    for (let i = 0; i < times; i++) {
      const lease = await grant(hot);
      highest = Math.max(highest, lease.fencing_token);
      assert.equal((await client.release(hot, lease.lease_id)).status, 200);
    }
  };

  before(async () => {
    server = await startServer({ env: { HOLDFAST_RATE_LIMIT: "off" } });
    client = new Client(server.url, "secret-a");
    for (let i = 0; i < 40; i++) held.push(await grant(`held-${i}`, { request_id: `request-${i}` }));
    session = (await client.post("/sessions", { ttl_seconds: ttlSeconds })).body.session_id;
    await turnOver(30);
    const stream = watching(client, "/watch");
    lastEventId = (await eventOf(stream, "synced")).id ?? "";
    await stream.return(undefined);
  });
  after(async () => {
    client.close();
    await server[Symbol.asyncDispose]();
  });

  test("is made under load, for its owner alone, and never over another file", async () => {
    let isDone = false;
    const load = (async () => {
      while (!isDone) await turnOver(1);
    })();
    const made = await holdfast(["backup", backup], { env: asAdmin(server.url) });
    isDone = true;
    await load;
    assert.equal(made.code, 0, made.text);
    assert.match(made.stdout, new RegExp(`Backed up ${server.url} to ${backup}`));
    assert.match(made.stdout, /holdfast restore/);
    assert.equal(statSync(backup).mode & 0o777, 0o600);
    assert.deepEqual(readdirSync(dir), ["copy.db"], "nothing else is left behind");
    assert.ok(!readdirSync(server.dataDir).some((name) => name.startsWith("backup-")), "nor at the server");
    const bytes = readFileSync(backup);
    const again = await holdfast(["backup", backup], { env: asAdmin(server.url) });
    assert.equal(again.code, 2);
    assert.match(again.stderr, /exists already/);
    assert.ok(readFileSync(backup).equals(bytes));
    const observer = await holdfast(["backup", join(dir, "other.db")], {
      env: { HOLDFAST_URL: server.url, HOLDFAST_TOKEN: "secret-v" },
    });
    assert.equal(observer.code, 1, "403");
    assert.match(observer.stderr, /needs the role operator/);
    await turnOver(20);
  });

  test("cannot be served as it is", async () => {
    const data = temporaryDir("holdfast-stamped-");
    copyFileSync(backup, join(data, "holdfast.db"));
    const ended = await holdfast(["serve", "--port", "0", "--data", data]);
    assert.equal(ended.code, 5, ended.text);
    assert.match(ended.stderr, /is a backup that was not restored: run: holdfast restore/);
    assert.ok(readFileSync(join(data, "holdfast.db")).equals(readFileSync(backup)), "it was not touched");
  });

  // The first mostly waits: the others run beside it.
  describe("once there", { concurrency: 3 }, () => {
    test("restored, ends what was held, grants nothing for the longest TTL, and then above every token", async () => {
      const data = join(temporaryDir("holdfast-restored-"), "data");
      const restoredAt = performance.now();
      const ended = await holdfast(["restore", backup, "--data", data]);
      assert.equal(ended.code, 0, ended.text);
      assert.match(ended.stdout, /4[01] leases of the backup are ended/);
      assert.match(ended.stdout, new RegExp(`It grants nothing for ${ttlSeconds} s`));
      assert.deepEqual(
        readdirSync(data).filter((name) => /restoring|-wal|-shm/.test(name)),
        [],
      );
      await using restored = await startServer({ dataDir: data, cwd: "/" });
      const caller = new Client(restored.url, "secret-a");
      assert.match(ended.stdout, new RegExp(`Start it with: holdfast serve --data ${data}`));
      await saysItWaits(restored, caller);
      const asked = await caller.acquire(hot, { ttl_seconds: ttlSeconds });
      assert.deepEqual([asked.status, asked.body.code], [409, "delayed"], JSON.stringify(asked.body));
      assert.match(asked.body.details, /restored from a backup/);
      assert.ok(asked.body.retry_after_ms > 0 && asked.body.retry_after_ms <= ttlSeconds * 1000);
      const waiting = caller.acquire(hot, { ttl_seconds: ttlSeconds, wait_seconds: 60 });

      for (const lease of held.slice(0, 5)) {
        assert.equal((await caller.renew(lease.name, lease.lease_id)).status, 404, "its lease is over");
        assert.equal((await caller.look(lease.name)).body.status, "free");
      }
      assert.equal((await caller.post(`/sessions/${session}/keepalive`)).status, 404);
      const stream = watching(caller, "/watch", lastEventId);
      assert.equal(
        (await stream.next()).value?.event,
        "reset",
        "the old place in the feed means nothing here",
      );
      await stream.return(undefined);
      const admin = new Client(restored.url, adminToken);
      const { records } = (await admin.get("/audit")).body;
      assert.ok(
        records.some(({ action, principal }) => action === "restore" && /restore by/.test(principal)),
      );

      const first = await waiting;
      const tookMs = performance.now() - restoredAt;
      assert.equal(first.body.status, "acquired", JSON.stringify(first.body));
      assert.ok(
        tookMs >= ttlSeconds * 1000 && tookMs < ttlSeconds * 1000 + 5000,
        `granted ${tookMs} ms after the restore began`,
      );
      assert.ok(first.body.fencing_token > highest, `${first.body.fencing_token} after ${highest}`);
      // The request ids of before are forgotten: the same one is a new request.
      const repeated = await caller.acquire("held-0", { ttl_seconds: ttlSeconds, request_id: "request-0" });
      assert.equal(repeated.body.status, "acquired");
      assert.notEqual(repeated.body.lease_id, held[0]?.lease_id);
      assert.ok(repeated.body.fencing_token > (held[0]?.fencing_token ?? 0));
      caller.close();
      admin.close();
      assert.equal(await restored.stop(), 0);
    });

    test("restored twice with --no-wait grants at once, the second above all of the first", async () => {
      let before = highest;
      for (const word of ["first", "second"]) {
        const data = join(temporaryDir("holdfast-twice-"), word);
        const ended = await holdfast(["restore", backup, "--data", data, "--no-wait", "--json"]);
        assert.equal(ended.code, 0, ended.text);
        assert.deepEqual(
          { ...jsonOf(ended), leases_ended: 0 },
          { path: join(data, "holdfast.db"), quiet_ms: 0, leases_ended: 0 },
        );
        await using restored = await startServer({ dataDir: data, cwd: "/" });
        const caller = new Client(restored.url, "secret-a");
        assert.equal((await caller.look("never-seen")).body.fencing_token, 0, "none was granted");
        for (const name of [hot, "held-1", "never-seen"]) {
          const { body } = await caller.acquire(name);
          assert.equal(body.status, "acquired", JSON.stringify(body));
          assert.ok(body.fencing_token > before, `${word}: ${name} ${body.fencing_token} after ${before}`);
        }
        let last = 0;
        for (let i = 0; i < 20; i++) {
          const { body } = await caller.acquire("more", { ttl_seconds: 60 });
          assert.ok(body.fencing_token > last);
          last = body.fencing_token;
          await caller.release("more", body.lease_id);
        }
        before = last;
        caller.close();
      }
    });

    test("is refused where it would do harm: nothing is there, something is there, it is no backup, it is damaged", async () => {
      const data = temporaryDir("holdfast-refused-");
      const damaged = join(data, "damaged.db");
      const bytes = readFileSync(backup);
      writeFileSync(damaged, bytes.subarray(0, bytes.length - 4096));
      const plain = join(data, "plain.txt");
      writeFileSync(plain, "no backup at all, but long enough to be looked at".repeat(20));
      const leftover = temporaryDir("holdfast-leftover-");
      copyFileSync(join(server.dataDir, "holdfast.db-wal"), join(leftover, "holdfast.db-wal"));
      const rows: [args: string[], code: number, says: RegExp][] = [
        [[join(data, "nowhere.db"), "--data", join(data, "a")], 3, /there is no backup/],
        [[backup, "--data", server.dataDir], 2, /exists already: move it away first/],
        [[plain, "--data", join(data, "b")], 5, /plain\.txt is not a Holdfast data file/],
        [[backup, "--data", leftover], 2, /holdfast\.db-wal exists already: move it away first/],
        [[backup, "--data", join(data, "d"), "--wait", "1h", "--no-wait"], 2, /--wait and --no-wait/],
        [[backup, "--data", join(data, "d"), "--wait", "367d"], 2, /--wait 367d: at most 366d/],
        [[damaged, "--data", join(data, "c")], 5, /damaged/],
        [[backup, "--data", join(data, "d"), "--wait", "soon"], 2, /--wait "soon"/],
        [[backup, "--store", "memory:"], 5, /only a file can be restored/],
      ];
      const refusals = rows.map(async ([args, code, says]) => {
        const ended = await holdfast(["restore", ...args]);
        assert.equal(ended.code, code, ended.text);
        assert.match(ended.stderr, says);
      });
      await Promise.all(refusals);
      for (const name of ["a", "b", "c", "d"])
        assert.ok(!existsSync(join(data, name, "holdfast.db")), `${name}: nothing was put in place`);
    });
  });

  test("is also made from the file when no server holds it", async () => {
    assert.equal(await server.stop(), 0);
    const copy = join(dir, "offline.db");
    const made = await holdfast(["backup", copy, "--data", server.dataDir, "--json"]);
    assert.equal(made.code, 0, made.text);
    assert.deepEqual(jsonOf(made), { file: copy, bytes: statSync(copy).size });
    assert.equal(statSync(copy).mode & 0o777, 0o600);
    const data = join(dir, "from-offline");
    assert.equal((await holdfast(["restore", copy, "--data", data, "--wait", "30m"])).code, 0);
  });
});

/** In the block, in the log, in the metrics, in a look at a free name, and to whoever claims among several. */
async function saysItWaits(restored: Server, caller: Client): Promise<void> {
  assert.match(restored.stdout(), /Wait +restored from a backup: nothing is granted for \d+ s yet/);
  assert.ok(logLines(restored).some(({ msg }) => /nothing is granted until/.test(String(msg))));
  const { body: metrics } = await call<string>(restored, "GET", "/metrics");
  assert.match(metrics, /^holdfast_restore_wait_ms [1-9]\d{2,3}$/m);
  const { body: free } = await caller.look(hot);
  assert.equal(free.status, "free");
  assert.ok(Date.parse(free.available_at) > Date.now(), JSON.stringify(free));
  const { status, body } = await caller.post("/jobs/claim", { candidates: ["a", "b"] });
  assert.deepEqual([status, body.code], [409, "delayed"], JSON.stringify(body));
  assert.match(body.details, /restored from a backup/);
  assert.ok(body.retry_after_ms > 0 && body.retry_after_ms <= ttlSeconds * 1000);
}

function jsonOf({ stdout }: Ended): Record<string, unknown> {
  const { schema_version, ok, data } = JSON.parse(stdout) as Record<string, unknown>;
  assert.deepEqual([schema_version, ok], [1, true]);
  return data as Record<string, unknown>;
}
