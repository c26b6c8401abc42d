// The wall clock set forward and back by an hour, while the server runs and while it is down. Leases are measured
// by the monotonic clock: a step ends none, renewals go on, and a short lease ends when it should.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { adminToken, type Server, startServer } from "./server.js";
import { type Body, Client, until } from "./system-client.js";
import { wallClock } from "./system-wall-clock.js";

const hourMs = 3_600_000;
/** What a busy machine may add to a measured time. */
const slackMs = 1500;
const ttl = 600;

describe("a step of the wall clock", () => {
  const wall = wallClock();
  let stepMs = 0;
  let server: Server;
  let client: Client;
  let other: Client;

  /** Sets the server's wall clock, relative to the real one. */
  const setStep = (ms: number): void => {
    stepMs = ms;
    wall.step(ms);
  };

  before(async () => {
    server = await startServer({ env: wall.env });
    client = new Client(server.url, "secret-a");
    other = new Client(server.url, "secret-b");
  });
  after(async () => {
    client.close();
    other.close();
    await server[Symbol.asyncDispose]();
  });

  /** Whether a reply shows that the server takes the stepped time for now. */
  const isStepped = (body: Body): boolean =>
    Math.abs(Date.parse(body.expires_at) - body.expires_in_ms - (Date.now() + stepMs)) < slackMs;
  /** The library notices a new step after a moment. In all that time the lease is held. */
  const untilStepped = (name: string): Promise<Body> =>
    until(async () => {
      const { body } = await client.look(name);
      assert.equal(body.status, "held");
      return isStepped(body) ? body : undefined;
    }, "the server sees the stepped clock");

  for (const [word, step] of [
    ["forward", hourMs],
    ["back", -hourMs],
  ] as const)
    test(`an hour ${word} while it runs ends no lease early and none late`, async () => {
      const lease = await held(client, `long-${word}`, { ttl_seconds: ttl });
      const session = await client.post("/sessions", { ttl_seconds: 5 });
      const { session_id } = session.body;
      const bound = await held(client, `bound-${word}`, { session_id });
      const [short, shortFrom] = [`short-${word}`, performance.now()];
      const brief = await held(client, short, { ttl_seconds: 2 });
      const next = other.acquire(short, { wait_seconds: 30 });

      setStep(step);
      const looked = await untilStepped(`long-${word}`);
      assert.equal(looked.fencing_token, lease.fencing_token);
      assertLeft(looked, lease, performance.now() - shortFrom);
      const renewed = await client.renew(`long-${word}`, lease.lease_id);
      assert.equal(renewed.status, 200);
      assert.equal(renewed.body.fencing_token, lease.fencing_token);
      assertLeft(renewed.body, { expires_in_ms: ttl * 1000 }, 0);
      assert.equal((await client.post(`/sessions/${session_id}/keepalive`)).status, 200);
      assert.equal((await client.renew(`bound-${word}`, bound.lease_id)).status, 200);
      assert.equal((await client.renew(short, brief.lease_id)).status, 200, "the short one lives too");

      // From the renewal on it has its two seconds again, whatever the wall clock says.
      const granted = await next;
      const tookMs = performance.now() - shortFrom;
      assert.equal(granted.body.status, "acquired");
      assert.ok(tookMs >= 2000 && tookMs < 4000 + slackMs, `granted to the next after ${tookMs} ms`);
      assert.equal((await client.look(`long-${word}`)).body.status, "held");
      setStep(0);
      await untilStepped(`long-${word}`);
      assert.equal(
        (await client.renew(`long-${word}`, lease.lease_id)).status,
        200,
        "also when it is set right",
      );
    });

  test("what the audit says of when stays, over a step and a restart", async () => {
    await held(client, "audited", {});
    const admin = new Client(server.url, adminToken);
    const from = Date.now();
    await admin.del("/locks/audited", { reason: "to be read" });
    const written = async (): Promise<string> => (await admin.get("/audit")).body.records[0]?.at ?? "";
    const at = await written();
    assert.ok(Date.parse(at) >= from - 1 && Date.parse(at) <= Date.now() + 1, at);
    await held(client, "watched", { ttl_seconds: ttl });
    setStep(hourMs);
    await untilStepped("watched");
    assert.equal(await written(), at);
    // Stores the pair of clocks: without it the step would count as downtime.
    await held(client, "stored", {});
    server = await server.restart();
    assert.equal(await written(), at);
    setStep(0);
    await untilStepped("watched");
    admin.close();
  });

  for (const [word, step] of [
    ["forward", hourMs],
    ["back", -hourMs],
  ] as const)
    test(`kill -9 and restart after an hour ${word} shortens no lease beyond the real time`, async () => {
      const lease = await held(client, `crash-${word}`, { ttl_seconds: ttl });
      const heldAt = performance.now();
      setStep(step);
      await untilStepped(`crash-${word}`);
      // Any commit stores the pair of clocks; without one it is stored within a second.
      await held(client, `commit-${word}`, { ttl_seconds: ttl });
      server = await server.restart();
      const { body } = await client.look(`crash-${word}`);
      assert.equal(body.status, "held");
      assert.ok(isStepped(body));
      assertLeft(body, lease, performance.now() - heldAt);
      assert.equal((await client.renew(`crash-${word}`, lease.lease_id)).status, 200);
      setStep(0);
      await untilStepped(`crash-${word}`);
      await held(client, `after-${word}`, {});
    });

  test("a step while it is down counts as downtime, and never lengthens what was stored", async () => {
    const lease = await held(client, "down", { ttl_seconds: ttl });
    const heldAt = performance.now();
    server.kill("SIGKILL");
    await server.exited;
    setStep(60_000);
    server = await server.restart();
    const forward = (await client.look("down")).body;
    assert.equal(forward.status, "held");
    const gone = lease.expires_in_ms - forward.expires_in_ms;
    assert.ok(gone >= 60_000 && gone < 60_000 + performance.now() - heldAt + slackMs, `${gone} ms passed`);

    server.kill("SIGKILL");
    await server.exited;
    setStep(-hourMs);
    server = await server.restart();
    const back = (await client.look("down")).body;
    assert.equal(back.status, "held");
    assert.ok(back.expires_in_ms <= forward.expires_in_ms, "the clock of leases never goes back");
    assertLeft(back, forward, performance.now() - heldAt);
    assert.equal((await client.renew("down", lease.lease_id)).status, 200);
  });
});

/** A lease has as long left as before, less the real time since, give or take what a busy machine does. */
function assertLeft(
  now: Pick<Body, "expires_in_ms">,
  then: Pick<Body, "expires_in_ms">,
  sinceMs: number,
): void {
  const expected = then.expires_in_ms - sinceMs;
  assert.ok(now.expires_in_ms >= expected - slackMs, `${now.expires_in_ms} ms left of ${expected}`);
  assert.ok(now.expires_in_ms <= then.expires_in_ms + 1, `${now.expires_in_ms} ms left of ${expected}`);
}

async function held(client: Client, name: string, body: object): Promise<Body> {
  const reply = await client.acquire(name, body);
  assert.equal(reply.body.status, "acquired", JSON.stringify(reply.body));
  return reply.body;
}
