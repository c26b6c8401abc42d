// The rows of the job table: claim, claim among candidates, heartbeat one and many, release with an outcome, who
// owns it, lists. Jobs are locks in other words, so both faces are looked at.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { type Body, call, fresh, lapse, ok, refused, waitersOn } from "./http-api.js";
import { adminToken, type Server, startServer } from "./server.js";

const one = "secret-a"; // runner-1
const two = "secret-b"; // runner-2
const viewer = "secret-v";
let server: Server;

before(async () => {
  server = await startServer();
});
after(() => server.stop());

const claim = (name: string, body: object = {}, token = one): Promise<Body> =>
  ok(server, "claimJob", { token, name, body });
const owner = (name: string): Promise<Body> => ok(server, "getJob", { token: viewer, name });

describe("claim", () => {
  test("answers the lease, the token, the owner and when to heartbeat", async () => {
    const name = fresh("job");
    const metadata = { branch: "fix-1842", tries: [1, 2], nested: { é: null } };
    const job = await claim(name, { owner: "agent-7", metadata, ttl_seconds: 90 });
    assert.deepEqual([job.job_id, job.claimed, job.token, job.owner], [name, true, 1, "agent-7"]);
    assert.deepEqual(job.metadata, metadata);
    assert.deepEqual([job.expires_in_ms, job.heartbeat_after_ms, job.attempts], [90_000, 30_000, 1]);
  });

  test("without a body: 120 s, owned by the principal", async () => {
    const job = await ok(server, "claimJob", { token: one, name: fresh("job") });
    assert.deepEqual([job.owner, job.expires_in_ms, job.metadata], ["runner-1", 120_000, null]);
  });

  test("a reentrant token: the same metadata in another order is the same", async () => {
    const name = fresh("job");
    const job = await claim(name, { metadata: { a: 1, b: [{ c: 2, d: 3 }] } }, "secret-c");
    const again = await claim(name, { metadata: { b: [{ d: 3, c: 2 }], a: 1 } }, "secret-c");
    assert.equal(again.lease_id, job.lease_id);
    const other = { token: "secret-c", name, body: { metadata: { a: 1, b: [{ c: 3, d: 2 }] } } };
    await refused(server, "claimJob", other, 409, "held");
  });

  test("a taken job is 409 and shows its owner, never its lease", async () => {
    const name = fresh("job");
    const job = await claim(name, { owner: "agent-7", metadata: { branch: "b" } });
    const { status, headers, body, text } = await call(server, "claimJob", { token: two, name, body: {} });
    assert.equal(status, 409);
    assert.deepEqual([body.code, body.claimed, body.job_id, body.owner], ["held", false, name, "agent-7"]);
    assert.deepEqual(body.metadata, { branch: "b" });
    assert.equal(body.expires_at, job.expires_at);
    assert.ok(body.retry_after_ms > 0 && Number(headers["retry-after"]) >= 1);
    assert.match(body.details, /agent-7/);
    assert.ok(!text.includes(job.lease_id));
  });

  test("the same label of another principal is another owner", async () => {
    const name = fresh("job");
    const { lease_id } = await claim(name, { owner: "agent-7" });
    await refused(server, "claimJob", { token: two, name, body: { owner: "agent-7" } }, 409, "held");
    await refused(server, "heartbeatJob", { token: two, name, body: { lease_id } }, 409, "lease_lost");
    await refused(server, "releaseJob", { token: two, name, body: { lease_id } }, 409, "lease_lost");
    assert.equal((await owner(name)).principal, "runner-1");
  });

  test("waits like a lock; a wait in vain tells the place", async () => {
    const name = fresh("job");
    const { lease_id } = await claim(name);
    const waiting = claim(name, { wait_seconds: 20, owner: "second" }, two);
    await waitersOn(server, viewer, name, 1);
    const vain = await call(server, "claimJob", { token: one, name, body: { wait_seconds: 1 } });
    assert.deepEqual([vain.status, vain.body.code, vain.body.position], [409, "held", 2]);
    await ok(server, "releaseJob", { token: one, name, body: { lease_id } });
    const second = await waiting;
    assert.deepEqual([second.claimed, second.owner, second.token], [true, "second", 2]);
  });

  test("a lock and a job of one name are one thing", async () => {
    const name = fresh("job");
    const job = await claim(name, { metadata: { a: 1 }, owner: "agent" });
    const lock = await ok(server, "getLock", { token: viewer, name });
    assert.deepEqual([lock.status, lock.metadata, lock.holder?.owner], ["held", '{"a":1}', "agent"]);
    const renewed = await ok(server, "renewLock", { token: one, name, body: { lease_id: job.lease_id } });
    assert.equal(renewed.fencing_token, job.token);
    await ok(server, "releaseLock", { token: one, name, body: { lease_id: job.lease_id } });
    const taken = await ok(server, "acquireLock", { token: two, name, body: { metadata: "text" } });
    const seen = await owner(name);
    assert.deepEqual(
      [seen.claimed, seen.owner, seen.metadata, seen.token],
      [true, "runner-2", "text", taken.fencing_token],
    );
  });

  test("during a lock delay: 409 delayed, nobody's", async () => {
    const name = fresh("job");
    await ok(server, "acquireLock", { token: one, name, body: { lock_delay_seconds: 30 } });
    await ok(server, "forceReleaseLock", { token: adminToken, name, body: { reason: "gone" } });
    const told = await refused(server, "claimJob", { token: two, name, body: {} }, 409, "delayed");
    assert.deepEqual([told.claimed, told.owner, told.expires_at], [false, null, null]);
    assert.ok(told.retry_after_ms > 25_000 && told.retry_after_ms <= 30_001);
    assert.ok(Date.parse(told.available_at) > Date.now());
  });
});

describe("claim among candidates", () => {
  const claimAny = (candidates: string[], more: object = {}, token = one) =>
    call(server, "claimAnyJob", { token, body: { candidates, ...more } });

  test("grants the first that is free, and only that", async () => {
    const [a, b, c] = [fresh("job"), fresh("job"), fresh("job")];
    await claim(a);
    const { status, body } = await claimAny(
      [a, b, c],
      { owner: "agent", metadata: { k: 1 }, ttl_seconds: 60 },
      two,
    );
    assert.deepEqual([status, body.job_id, body.owner, body.expires_in_ms], [200, b, "agent", 60_000]);
    assert.deepEqual(body.metadata, { k: 1 });
    assert.equal((await owner(c)).claimed, false);
  });

  test("none free: 409 with each owner, in the order asked", async () => {
    const [a, b] = [fresh("job"), fresh("job")];
    await claim(a, { owner: "first" });
    await claim(b, { owner: "second" }, two);
    const { status, body } = await claimAny([b, a]);
    assert.deepEqual([status, body.code, body.claimed], [409, "held", false]);
    assert.deepEqual(
      body.candidates.map(({ job_id, owner, code }) => [job_id, owner, code]),
      [
        [b, "second", "held"],
        [a, "first", "held"],
      ],
    );
  });

  test("the same name twice counts once; of many racing claims each job goes to one", async () => {
    const jobs = Array.from({ length: 8 }, () => fresh("race"));
    const replies = await Promise.all(
      Array.from({ length: 24 }, (_, i) => claimAny([...jobs, ...jobs], {}, i % 2 === 0 ? one : two)),
    );
    const won = replies.filter(({ status }) => status === 200).map(({ body }) => body.job_id);
    assert.deepEqual(won.toSorted(), jobs.toSorted());
    for (const { status, body } of replies) if (status !== 200) assert.equal(body.candidates.length, 8);
  });

  test("1 to 100 candidates, no waiting", async () => {
    await refused(server, "claimAnyJob", { token: one, body: { candidates: [] } }, 422, "invalid_input");
    await refused(server, "claimAnyJob", { token: one, body: {} }, 422, "invalid_input");
    const many = Array.from({ length: 101 }, (_, i) => `many-${i}`);
    await refused(server, "claimAnyJob", { token: one, body: { candidates: many } }, 422, "invalid_input");
    assert.equal((await claimAny(many.slice(0, 100))).body.job_id, "many-0");
    const waits = { candidates: ["many-5"], wait_seconds: 1 };
    await refused(server, "claimAnyJob", { token: one, body: waits }, 422, "invalid_input");
    const bad = { candidates: ["many-7", "invalid!@name"] };
    await refused(server, "claimAnyJob", { token: one, body: bad }, 400, "invalid_lock_name");
    assert.equal((await owner("many-7")).claimed, false);
  });

  test("paths that overlap another's are passed over, with the name that is in the way", async () => {
    const dir = fresh("path:claimany");
    await claim(`${dir}/src`);
    const { status, body } = await claimAny([`${dir}/src/a.ts`, `${dir}/docs`], {}, two);
    assert.deepEqual([status, body.job_id], [200, `${dir}/docs`]);
    const none = await claimAny([`${dir}/src/a.ts`], {}, two);
    assert.equal(none.body.candidates[0]?.conflicts_with, `${dir}/src`);
    const below = `${dir}/src/a.ts`;
    const { details } = await refused(server, "claimJob", { token: two, name: below, body: {} }, 409, "held");
    assert.ok(
      details.startsWith(`${below} overlaps ${dir}/src, which is taken. It is held by runner-1`),
      details,
    );
  });
});

describe("heartbeat", () => {
  test("prolongs, tells progress, keeps the token", async () => {
    const name = fresh("job");
    const { lease_id, token } = await claim(name, { ttl_seconds: 60 });
    const beat = (body: object) =>
      ok(server, "heartbeatJob", { token: one, name, body: { lease_id, ...body } });
    const first = await beat({ progress: "1 of 3" });
    assert.deepEqual([first.job_id, first.lease_id, first.token], [name, lease_id, token]);
    assert.ok(first.expires_in_ms > 59_000);
    const seen = await owner(name);
    assert.equal(seen.progress, "1 of 3");
    await beat({ ttl_seconds: 300 });
    const later = await owner(name);
    assert.equal(later.progress, "1 of 3", "a beat without progress keeps the last");
    assert.ok(later.expires_in_ms > 299_000);
    assert.ok(Date.parse(later.last_heartbeat_at) >= Date.parse(seen.last_heartbeat_at));
    await beat({ progress: "" });
    assert.equal((await owner(name)).progress, "");
    await refused(
      server,
      "heartbeatJob",
      { token: one, name, body: { lease_id, progress: "é".repeat(1025) } },
      400,
      "invalid_input",
    );
    await beat({ progress: "🙂".repeat(1024) });
  });

  test("a lost lease is 409 and names the current owner, if any", async () => {
    const name = fresh("job");
    const gone = await refused(
      server,
      "heartbeatJob",
      { token: one, name, body: { lease_id: "ls_x" } },
      409,
      "lease_lost",
    );
    assert.equal(gone.owner, null);
    const { lease_id } = await claim(name, { ttl_seconds: 1 });
    await lapse(1000);
    const expired = await refused(
      server,
      "heartbeatJob",
      { token: one, name, body: { lease_id } },
      409,
      "lease_lost",
    );
    assert.deepEqual([expired.owner, expired.previous.how], [null, "expired"]);
    const { claimed, previous } = await owner(name);
    assert.deepEqual([claimed, previous.how, previous.principal], [false, "expired", "runner-1"]);
    await claim(name, { owner: "agent-9" }, two);
    const taken = await refused(
      server,
      "heartbeatJob",
      { token: one, name, body: { lease_id } },
      409,
      "lease_lost",
    );
    assert.equal(taken.owner, "agent-9");
    assert.match(taken.details, /agent-9/);
  });

  test("many at once: which are renewed and which are lost", async () => {
    const held = await Promise.all(["x", "y", "z"].map((stem) => claim(fresh(stem), { ttl_seconds: 60 })));
    const foreign = await claim(fresh("job"), {}, two);
    const leases = [
      ...held.map(({ job_id, lease_id }) => ({ job_id, lease_id })),
      { job_id: foreign.job_id, lease_id: foreign.lease_id },
      { job_id: held[0]?.job_id, lease_id: "ls_wrong" },
      { job_id: fresh("never"), lease_id: "ls_wrong" },
    ];
    const reply = await ok(server, "heartbeatJobs", { token: one, body: { leases } });
    assert.deepEqual(
      reply.renewed.map(({ lease_id }) => lease_id),
      held.map(({ lease_id }) => lease_id),
    );
    assert.deepEqual(
      reply.lost.map(({ job_id, lease_id, code, owner }) => ({ job_id, lease_id, code, owner })),
      leases
        .slice(3)
        .map((lease, i) => ({ ...lease, code: "lease_lost", owner: ["runner-2", "runner-1", null][i] })),
    );
    const twice = await ok(server, "heartbeatJobs", { token: one, body: { leases: [leases[0], leases[0]] } });
    assert.equal(twice.renewed.length, 2);
    assert.deepEqual(await ok(server, "heartbeatJobs", { token: one, body: { leases: [] } }), {
      renewed: [],
      lost: [],
    });
    await refused(server, "heartbeatJobs", { token: one }, 422, "invalid_input");
  });

  test("1,000 leases in one request, of the longest names; 1,001 are refused", async () => {
    const stem = fresh("bulk");
    const names = Array.from({ length: 1000 }, (_, i) => `${stem}.${i}.`.padEnd(256, "n"));
    const jobs: Body[] = [];
    for (let i = 0; i < names.length; i += 100)
      jobs.push(...(await Promise.all(names.slice(i, i + 100).map((name) => claim(name)))));
    const leases = jobs.map(({ job_id, lease_id }) => ({ job_id, lease_id }));
    const reply = await ok(server, "heartbeatJobs", { token: one, body: { leases } });
    assert.deepEqual([reply.renewed.length, reply.lost.length], [1000, 0]);
    const more = [...leases, leases[0]];
    await refused(server, "heartbeatJobs", { token: one, body: { leases: more } }, 422, "invalid_input");
    const nested = { leases: [{ ...leases[0], progress: "x" }] };
    await refused(server, "heartbeatJobs", { token: one, body: nested }, 422, "invalid_input");
  });
});

describe("release", () => {
  test("frees the job and keeps how it went; repeating it succeeds", async () => {
    const name = fresh("job");
    const { lease_id, token } = await claim(name);
    const release = (body: object = {}) =>
      ok(server, "releaseJob", { token: one, name, body: { lease_id, ...body } });
    assert.deepEqual(await release({ outcome: "failed", note: "tests red" }), {
      job_id: name,
      released: true,
    });
    assert.deepEqual(await release({ outcome: "done" }), { job_id: name, released: true });
    const free = await owner(name);
    assert.deepEqual([free.claimed, free.owner, free.principal, free.token], [false, null, null, token]);
    assert.deepEqual([free.last_outcome?.outcome, free.last_outcome?.note], ["failed", "tests red"]);
    await claim(name, {}, two);
    await refused(
      server,
      "releaseJob",
      { token: one, name, body: { lease_id: "ls_wrong" } },
      409,
      "lease_lost",
    );
    assert.equal((await owner(name)).principal, "runner-2", "a successor is never harmed");
  });

  test("repeating it while another owns the job succeeds too, and harms nobody", async () => {
    const name = fresh("job");
    const { lease_id } = await claim(name);
    await ok(server, "releaseJob", { token: one, name, body: { lease_id } });
    const next = await claim(name, {}, two);
    assert.equal((await ok(server, "releaseJob", { token: one, name, body: { lease_id } })).released, true);
    assert.equal((await owner(name)).token, next.token);
  });

  test("attempts count grants since the last clean release", async () => {
    const name = fresh("job");
    const attempt = async (end: object | "expire" | "force"): Promise<number> => {
      const { lease_id, attempts } = await claim(name, { ttl_seconds: end === "expire" ? 1 : 60 });
      if (end === "expire") await lapse(1000);
      else if (end === "force")
        await ok(server, "forceReleaseLock", { token: adminToken, name, body: { reason: "r" } });
      else await ok(server, "releaseJob", { token: one, name, body: { lease_id, ...end } });
      return attempts;
    };
    assert.equal(await attempt({ outcome: "failed" }), 1);
    assert.equal(await attempt("expire"), 2);
    assert.equal(await attempt("force"), 3);
    assert.equal(await attempt({ outcome: "abandoned" }), 4);
    assert.equal(await attempt({ outcome: "done" }), 5);
    assert.equal(await attempt({}), 1);
    assert.equal(await attempt({}), 1);
    await refused(
      server,
      "releaseJob",
      { token: one, name, body: { lease_id: "x", outcome: "maybe" } },
      422,
      "invalid_input",
    );
  });
});

describe("owner and list", () => {
  test("a free job is never 404", async () => {
    const free = await owner(fresh("never"));
    assert.deepEqual([free.claimed, free.token, free.attempts, free.last_outcome], [false, 0, 0, undefined]);
  });

  test("jobs called claim and heartbeat are jobs like others", async () => {
    for (const name of ["claim", "heartbeat", "release"]) {
      const { lease_id } = await claim(name);
      assert.equal((await owner(name)).claimed, true);
      await ok(server, "heartbeatJob", { token: one, name, body: { lease_id } });
      await ok(server, "releaseJob", { token: one, name, body: { lease_id } });
    }
  });

  test("lists by prefix, by owner, and one's own", async () => {
    const stem = fresh("list");
    await claim(`${stem}-a`, { owner: "agent-1" });
    await claim(`${stem}-b`, { owner: "agent-2" });
    await claim(`${stem}-c`, {}, two);
    const names = async (query: Record<string, string>, token = viewer) =>
      (await ok(server, "listJobs", { token, query: { prefix: stem, ...query } })).jobs.map(({ job_id }) =>
        job_id.slice(stem.length),
      );
    assert.deepEqual(await names({}), ["-a", "-b", "-c"]);
    assert.deepEqual(await names({ owner: "agent-2" }), ["-b"]);
    assert.deepEqual(await names({ owner: "runner-2" }), ["-c"]);
    assert.deepEqual(await names({ owner: "runner-1" }), [], "the label is what is shown");
    assert.deepEqual(await names({ mine: "true" }, one), ["-a", "-b"]);
    assert.deepEqual(await names({ mine: "1", owner: "agent-1" }, one), ["-a"]);
    assert.deepEqual(await names({ mine: "false" }, one), ["-a", "-b", "-c"]);
    await refused(server, "listJobs", { token: one, query: { mine: "yes" } }, 422, "invalid_input");
  });
});
