// A full disk: the server runs on a small file system of its own, in a mount namespace that goes with it. Writes
// are refused as certainly not done, reads are answered or refused, nothing that was acknowledged is lost, and the
// server recovers when there is room again.
import assert from "node:assert/strict";
import { cpSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { startServer, temporaryDir } from "./server.js";
import { type Answer, allLocks, assertNoSecrets, Client, logLines, untilStatus } from "./system-client.js";
import { ballast, dataSeenBy, smallDisk } from "./system-small-disk.js";

const diskBytes = 6 * 2 ** 20;
const ballastBytes = 3 * 2 ** 20;
const metadata = "x".repeat(1000);

test("a full disk refuses what it cannot keep, loses nothing, and recovers when there is room", async (t) => {
  const dataDir = temporaryDir("holdfast-full-");
  await using server = await startServer({
    ...smallDisk(dataDir, diskBytes),
    env: { HOLDFAST_RATE_LIMIT: "off" },
  });
  const client = new Client(server.url, "secret-a");
  const load = ballast(server, ballastBytes);

  const leases = new Map<string, { leaseId: string; token: number }>();
  const refused = await fill(client, leases);
  t.diagnostic(`full after ${leases.size} leases`);
  for (const { body, headers } of refused) {
    assert.equal(body.code, "unavailable", `a full disk is noticed before a commit counts: ${body.details}`);
    assert.ok(Number(headers["retry-after"]) >= 1);
  }
  const [someName = "", some] = [...leases][0] ?? [];
  for (const reply of [await client.look(someName), await client.get("/locks"), await client.get("/health")])
    assert.ok([200, 503].includes(reply.status), JSON.stringify(reply.body));
  assert.equal((await client.acquire("while-full", { metadata })).status, 503);
  const renewed = await client.renew(someName, some?.leaseId ?? "");
  assert.ok([200, 503].includes(renewed.status));

  load.remove();
  await untilStatus(client, "/ready", 200);
  const locks = await allLocks(client);
  assertAllThere(leases, locks);
  assert.equal(locks.size, leases.size, "what was refused as not done is not there");
  for (const [name, { leaseId }] of [...leases].slice(0, 50))
    assert.equal((await client.renew(name, leaseId)).status, 200);
  const after = await client.acquire("after", { metadata });
  assert.equal(after.body.status, "acquired");
  leases.set("after", { leaseId: after.body.lease_id, token: after.body.fencing_token });
  assert.ok(logLines(server).some(({ msg }) => /full/.test(msg)));
  assertNoSecrets(server, ["secret-a", ...[...leases.values()].map(({ leaseId }) => leaseId)]);
  client.close();

  // What a crash right now would leave behind, opened elsewhere.
  const copy = temporaryDir("holdfast-full-copy-");
  server.kill("SIGSTOP");
  cpSync(dataSeenBy(server), copy, { recursive: true });
  assert.ok(statSync(join(copy, "holdfast.db")).size > 0);
  server.kill("SIGKILL");
  await using restarted = await startServer({ dataDir: copy });
  const other = new Client(restarted.url, "secret-a");
  assertAllThere(leases, await allLocks(other));
  other.close();
  assert.equal(await restarted.stop(), 0);
});

/** Acquires until nothing more is granted. Returns the refusals. */
async function fill(
  client: Client,
  leases: Map<string, { leaseId: string; token: number }>,
): Promise<Answer[]> {
  const refused: Answer[] = [];
  let next = 0;
  const loop = async (): Promise<void> => {
    while (refused.length < 40) {
      const name = `fill-${next++}`;
      const reply = await client.acquire(name, { ttl_seconds: 3600, metadata });
      if (reply.status === 503) refused.push(reply);
      else {
        assert.equal(reply.body.status, "acquired", JSON.stringify(reply.body));
        leases.set(name, { leaseId: reply.body.lease_id, token: reply.body.fencing_token });
      }
      assert.ok(next < 50_000, "the disk never fills");
    }
  };
  await Promise.all(Array.from({ length: 16 }, loop));
  return refused;
}

function assertAllThere(
  leases: ReadonlyMap<string, { token: number }>,
  locks: ReadonlyMap<string, { fencing_token: number }>,
): void {
  for (const [name, { token }] of leases)
    assert.equal(locks.get(name)?.fencing_token, token, `${name} was acknowledged`);
}
