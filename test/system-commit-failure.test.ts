// A commit that fails under the real server: strace makes the next syncs of the data file fail. Every request in
// that commit gets a 503 that says whether it may be done; memory equals the file again before the next decision;
// no later read shows a lost grant; the server recovers by itself; a repeated request id gets a definite answer.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { type Server, startServer } from "./server.js";
import {
  type Answer,
  assertNoSecrets,
  Client,
  eventOf,
  logLines,
  until,
  untilQuiet,
  untilStatus,
  watching,
} from "./system-client.js";
import { failSyncs } from "./system-tracer.js";

const ttl_seconds = 600;

describe("a commit that fails", () => {
  let server: Server;
  let client: Client;
  let other: Client;
  const secrets = ["secret-a", "secret-b"];

  before(async () => {
    server = await startServer({ env: { HOLDFAST_RATE_LIMIT: "off" } });
    client = new Client(server.url, "secret-a");
    other = new Client(server.url, "secret-b");
  });
  after(async () => {
    client.close();
    other.close();
    await server[Symbol.asyncDispose]();
  });

  const acquired = async (name: string, body: object = { ttl_seconds }): Promise<string> => {
    const reply = await client.acquire(name, body);
    assert.equal(reply.body.status, "acquired", JSON.stringify(reply.body));
    secrets.push(reply.body.lease_id);
    return reply.body.lease_id;
  };

  // The first sync after a start is that of the log's header, later ones come when the whole batch was written. A
  // server that lives on leaves a batch out whose sync failed; one that is killed at once finds it in the file.
  for (const state of ["in a new log", "in a used log", "and kill -9 at once"])
    test(`gives each of its requests a 503 by the rule, then a definite answer (${state})`, async (t) => {
      const kept = state === "in a new log" ? null : await acquired("kept");
      const mine = kept === null ? null : await acquired("mine");
      const names = Array.from({ length: 24 }, (_, i) => `${state.replaceAll(" ", "-")}-${i}`);
      const claim = (name: string): Promise<Answer> =>
        client.acquire(name, { ttl_seconds, request_id: `request-${name}` });
      await untilQuiet(client);
      const fault = await failSyncs(server.pid, "when=1:delay_enter=150000");
      // The first is on its way to the disk when the others come: they gather for the next commit.
      const flying = claim(names[0] ?? "");
      await until(() => (fault.output().includes("sync(") ? true : undefined), "the sync has begun");
      const others = names.slice(1).map(claim);
      // What depends on a commit that fails must not be answered either.
      const reads = names.slice(0, 4).map((name) => client.look(name));
      const renewal = kept === null ? null : client.renew("kept", kept);
      const release = mine === null ? null : client.release("mine", mine);
      const first = await flying;
      assert.equal(first.status, 503, JSON.stringify(first.body));
      assert.equal(first.body.code, "unknown_outcome");
      assert.ok(first.headers["retry-after"] !== undefined);
      for (const reply of await Promise.all(others)) {
        assert.equal(reply.status, 503, JSON.stringify(reply.body));
        assert.equal(reply.body.code, "unavailable", "it was in no commit yet: certainly not done");
        assert.ok(reply.headers["retry-after"] !== undefined);
      }
      for (const reply of await Promise.all(reads))
        assert.equal(reply.status, 503, JSON.stringify(reply.body));
      if (renewal !== null) assert.equal((await renewal).status, 503);
      if (release !== null) assert.equal((await release).status, 503);

      if (state === "and kill -9 at once") server = await server.restart();
      else await untilStatus(client, "/ready", 200);
      await fault.detach();
      const found = await Promise.all(names.map((name) => client.look(name)));
      for (const { body } of found.slice(1)) assert.equal(body.status, "free", "unavailable means not done");
      const isThere = found[0]?.body.status === "held";
      t.diagnostic(`${state}: the batch whose outcome was unknown is ${isThere ? "done" : "not done"}`);
      if (kept !== null && mine !== null) {
        assert.equal((await client.renew("kept", kept)).status, 200);
        assert.equal((await client.release("mine", mine)).status, 200, "unavailable: it was not released");
        assert.equal((await client.release("kept", kept)).status, 200);
      }
      server = await server.restart();
      const again = await Promise.all(names.map((name) => client.look(name)));
      assert.deepEqual(
        again.map(({ body }) => [body.status, body.fencing_token]),
        found.map(({ body }) => [body.status, body.fencing_token]),
        "what was read after the failure stays true",
      );
      for (const [i, name] of names.entries()) {
        const reply = await claim(name);
        assert.equal(reply.body.status, "acquired", JSON.stringify(reply.body));
        if (i === 0 && isThere) assert.equal(reply.body.fencing_token, found[0]?.body.fencing_token);
        const repeated = await claim(name);
        assert.deepEqual(
          [repeated.body.lease_id, repeated.body.fencing_token],
          [reply.body.lease_id, reply.body.fencing_token],
        );
        secrets.push(reply.body.lease_id);
      }
    });

  test("turns /ready and /health red, refuses everything, and green again by itself", async () => {
    const lease = await acquired("through-the-trouble");
    const stream = watching(client, "/watch?prefix=seen-");
    await eventOf(stream, "synced");
    await untilQuiet(client);
    const fault = await failSyncs(server.pid, "when=1+");
    const doomed = await client.acquire("doomed", { ttl_seconds, request_id: "request-doomed" });
    assert.equal(doomed.status, 503);
    assert.equal(doomed.body.code, "unknown_outcome");
    for (const path of ["/ready", "/health"]) {
      const { status, body } = await client.get(path);
      assert.equal(status, 503);
      assert.equal(body.code, "unavailable");
    }
    const refused = await Promise.all([
      client.acquire("seen-too-early"),
      client.renew("through-the-trouble", lease),
      client.look("through-the-trouble"),
      client.get("/locks"),
      client.post("/sessions"),
    ]);
    for (const { status, body, headers } of refused) {
      assert.deepEqual([status, body.code], [503, "unavailable"], JSON.stringify(body));
      assert.ok(Number(headers["retry-after"]) >= 1);
      assert.match(body.details, /Certainly not done/);
    }
    await fault.detach();
    await untilStatus(client, "/ready", 200);
    assert.equal((await client.get("/health")).status, 200);
    assert.equal((await client.renew("through-the-trouble", lease)).status, 200);
    const answer = await client.acquire("doomed", { ttl_seconds, request_id: "request-doomed" });
    assert.equal(answer.body.status, "acquired");
    await acquired("seen-1");
    assert.equal(
      (await eventOf(stream, "acquired")).data.name,
      "seen-1",
      "the stream goes on, without the lost",
    );
    await stream.return(undefined);
    const messages = (): string[] => logLines(server).map(({ msg }) => msg);
    await until(async () => messages().includes("the store works again") || undefined, "the log says so");
    const [fails, ...others] = messages().filter((text) => /fails/.test(text));
    assert.match(fails ?? "", /^the store fails: the data file cannot be written/);
    assert.deepEqual(others, [], "once, and nothing of what follows from it");
  });

  test("leaves no waiter without an answer, and no name without an owner", async () => {
    const lease = await acquired("queue");
    const claim = { ttl_seconds, wait_seconds: 30, request_id: "request-queue" };
    const waiting = other.acquire("queue", claim);
    const second = other.acquire("queue", { ttl_seconds, wait_seconds: 30 });
    await until(
      async () => ((await client.look("queue")).body.waiters === 2 ? true : undefined),
      "two wait for it",
    );
    await untilQuiet(client);
    const fault = await failSyncs(server.pid, "when=1");
    const release = await client.release("queue", lease);
    assert.deepEqual([release.status, release.body.code], [503, "unknown_outcome"]);
    const told = await waiting;
    assert.deepEqual([told.status, told.body.code], [503, "unknown_outcome"], "its grant was in that commit");
    await fault.detach();
    await untilStatus(client, "/ready", 200);
    // Both ask again, as they were told to: the release is certain then, and the first in line is first.
    const asking = other.acquire("queue", claim);
    await until(async () => {
      const { waiters, status } = (await client.look("queue")).body;
      return waiters === 2 || status === "free" || (waiters === 1 && (await isOver(asking)))
        ? true
        : undefined;
    }, "the first has its place again");
    const again = await client.release("queue", lease);
    assert.ok(again.status === 200 || again.body.code === "lease_not_current", JSON.stringify(again.body));
    const answer = await asking;
    assert.equal(answer.body.status, "acquired", JSON.stringify(answer.body));
    assert.equal((await other.release("queue", answer.body.lease_id)).status, 200);
    const last = await second;
    assert.equal(last.body.status, "acquired");
    assert.ok(last.body.fencing_token > answer.body.fencing_token);
    secrets.push(lease, answer.body.lease_id, last.body.lease_id);
  });

  test("puts no secret into the log", () => {
    assertNoSecrets(server, secrets);
  });
});

const isOver = (promise: Promise<unknown>): Promise<boolean> =>
  Promise.race([promise.then(() => true), new Promise<boolean>((resolve) => setImmediate(resolve, false))]);
