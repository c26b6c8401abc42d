// The client's calls on the work graph against a real server: answers and typed errors, what becomes of a call whose
// reply is lost, and waiting for work.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { createClient, HeldError, HoldfastError, LeaseLostError } from "../src/client/entry.js";
import { type Clients, clientsOf, until } from "./client-lab.js";
import { type Fate, type Request, TcpProxy } from "./evidence/proxy.js";
import { adminToken, type Server, startServer } from "./server.js";

let server: Server;
let clients: Clients;

before(async () => {
  server = await startServer({ env: { HOLDFAST_RATE_LIMIT: "off" } });
  clients = clientsOf(server.url);
});
after(() => server[Symbol.asyncDispose]());

let spaces = 0;
/** A space that only one test has work in, so that `next` of one does not take another's. */
function ownSpace(): ReturnType<typeof createClient> {
  spaces += 1;
  return createClient({ url: server.url, token: adminToken, space: `own-${spaces}` });
}

async function errorOf(call: Promise<unknown>): Promise<HoldfastError> {
  const error = await call.then(
    () => assert.fail("it succeeded"),
    (error: unknown) => error,
  );
  assert.ok(error instanceof HoldfastError, String(error));
  return error;
}

const codeOf = async (call: Promise<unknown>): Promise<string> => (await errorOf(call)).code;

describe("nodes", () => {
  test("are created, read, changed by their revision, and listed", async () => {
    const { nodes } = clients.one;
    const made = await nodes.create({
      id: "life-1",
      type: "task",
      title: "First",
      priority: "p2",
      project: "x",
    });
    assert.ok(made.createdAt instanceof Date);
    assert.deepEqual([made.status, made.revision, made.priority, made.lease], ["open", 1, "p2", undefined]);
    assert.equal(await codeOf(nodes.create({ id: "life-1", type: "task", title: "Again" })), "conflict");
    const changed = await nodes.update("life-1", 1, { summary: "words", project: null });
    assert.deepEqual([changed.summary, changed.project, changed.title], ["words", undefined, "First"]);
    const stale = await errorOf(nodes.update("life-1", 1, { title: "No" }));
    assert.deepEqual(
      [stale.code, stale.status, stale.fields["revision"]],
      ["conflict", 409, changed.revision],
    );
    for (const nth of [2, 3, 4, 5]) await nodes.create({ id: `life-${nth}`, type: "issue", title: `${nth}` });
    const found: string[] = [];
    for await (const { id } of nodes.each({ prefix: "life-", type: "issue", limit: 2 })) found.push(id);
    assert.deepEqual(found, ["life-2", "life-3", "life-4", "life-5"]);
    assert.equal((await clients.two.nodes.get("life-1")).title, "First");
  });

  test("are linked; history tells who did what", async () => {
    const { nodes } = clients.one;
    for (const id of ["edge-a", "edge-b"]) await nodes.create({ id, type: "task", title: id });
    assert.equal((await nodes.addEdge("edge-a", "blocks", "edge-b")).edge, "added");
    assert.equal((await nodes.addEdge("edge-a", "blocks", "edge-b")).edge, "kept");
    const blocked = await nodes.get("edge-b");
    assert.deepEqual(blocked.blockedBy, ["edge-a"]);
    const refused = await errorOf(nodes.claim("edge-b"));
    assert.deepEqual([refused.code, refused.fields["why"]], ["not_ready", "blocked"]);
    assert.equal(await codeOf(nodes.addEdge("edge-b", "blocks", "edge-a")), "conflict");
    const { edge, node } = await nodes.removeEdge("edge-a", "blocks", "edge-b");
    assert.deepEqual([edge, node.edges], ["removed", []]);
    const first = await nodes.history("edge-a", { limit: 2 });
    const rest = await nodes.history("edge-a", { after: first.nextAfter ?? 0 });
    const history = [...first.history, ...rest.history];
    assert.deepEqual(
      history.map(({ seq, what, by, at }) => [seq, what, by, at instanceof Date]),
      ["created", "edge_added", "edge_removed"].map((what, i) => [i + 1, what, "runner-1", true]),
    );
    assert.deepEqual([history[1]?.edge, rest.nextAfter], [{ type: "blocks", to: "edge-b" }, null]);
  });

  test("what cannot be is a code: no such node, a wrong id, type or status, a wrong token, an unknown option", async () => {
    const { nodes } = clients.one;
    await nodes.create({ id: "wrong", type: "task", title: "w" });
    assert.equal(await codeOf(nodes.get("nothing")), "not_found");
    assert.equal(await codeOf(nodes.claim("Not An Id")), "invalid_node");
    assert.equal(await codeOf(nodes.create({ id: "w", type: "tsk", title: "w" })), "invalid_node");
    assert.equal(await codeOf(nodes.setStatus("wrong", "dne")), "invalid_node");
    const stranger = createClient({ url: server.url, token: "hf_nobody" });
    assert.equal(await codeOf(stranger.nodes.get("wrong")), "unauthorized");
    await assert.rejects(
      nodes.claim("wrong", { sesion: "x" } as object),
      /nodes\.claim: .*did you mean session/,
    );
    await assert.rejects(
      nodes.work({ max: 1 } as object, () => undefined),
      /nodes\.work: unknown option "max"/,
    );
    assert.equal(await codeOf(nodes.get("")), "invalid_node");
  });

  test("a misspelt field is a TypeError that names the right one, before anything is sent", async () => {
    // Nothing listens there: whatever was sent would be another error.
    const { nodes } = createClient({ url: "http://127.0.0.1:9", token: "t", retries: 0 });
    const statuses = { open: "planned", over: "terminal" };
    for (const [call, says] of [
      [
        () => nodes.create({ id: "t", type: "task", titel: "t" } as never),
        /create: .*"titel": did you mean title/,
      ],
      [() => nodes.create(null as never), /create: give the fields as an object: got null/],
      [() => nodes.update("t", 1, { prioriti: "p1" } as never), /update: .*did you mean priority\?/],
      [
        () => nodes.setPolicy(0, { claimTtl: 3000 } as never),
        /setPolicy: .*"claimTtl": did you mean claimTtlMs/,
      ],
      [
        () => nodes.setPolicy(0, { types: { chore: { statuses, claimTtl: 1 } } } as never),
        /"claimTtl" in types\.chore: did you mean claimTtlMs/,
      ],
      [() => nodes.work({ type: "task" }, undefined as never), /nodes\.work: .*a function of the claim/],
    ] as const)
      await assert.rejects(
        call,
        (error) => error instanceof TypeError && says.test(error.message),
        says.source,
      );
  });

  test("an error has the server's words and its request's trace id", async () => {
    const error = await errorOf(clients.one.nodes.get("nothing"));
    assert.match(error.requestId ?? "", /^req_/);
    assert.match(error.message, /There is no node nothing/);
  });
});

describe("claims", () => {
  test("one has it; the other learns who and until when, and is told when its own is over", async () => {
    const { one, two } = clients;
    await one.nodes.create({ id: "held", type: "task", title: "h" });
    const { status, edge, lease } = await one.nodes.claim("held");
    assert.deepEqual([status, edge, lease.by, lease.session], ["claimed", "added", "runner-1", null]);
    assert.ok(lease.expiresAt instanceof Date && lease.expires === lease.expiresAt.getTime());
    const refused = await errorOf(two.nodes.claim("held"));
    assert.ok(refused instanceof HeldError);
    assert.deepEqual(
      [refused.code, refused.by.resource, refused.by.principal, refused.by.expiresAt, refused.by.since],
      ["already_claimed", "node:held", "runner-1", lease.expiresAt, lease.claimedAt],
    );
    const lost = await errorOf(two.nodes.renew("held"));
    assert.ok(lost instanceof LeaseLostError);
    assert.deepEqual(
      [lost.resource, lost.by?.principal, lost.by?.expiresAt],
      ["node:held", "runner-1", lease.expiresAt],
    );
    assert.ok((await errorOf(two.nodes.release("held"))) instanceof HeldError);
    assert.equal((await one.nodes.claim("held")).status, "renewed");
    assert.deepEqual(await one.nodes.release("held"), {
      ok: true,
      status: "released",
      nodeId: "held",
      edge: "removed",
    });
    assert.equal((await one.nodes.release("held")).edge, "skipped");
    const over = await errorOf(one.nodes.renew("held", { token: lease.token }));
    assert.ok(over instanceof LeaseLostError && over.by === null);
  });

  test("a run's label and a token say which claim is meant", async () => {
    const { nodes } = clients.one;
    await nodes.create({ id: "runs", type: "task", title: "r" });
    const { lease } = await nodes.claim("runs", { session: "run-1", dispatch: "d1" });
    assert.ok((await errorOf(nodes.claim("runs", { session: "run-2" }))) instanceof HeldError);
    assert.ok((await errorOf(nodes.claim("runs", { dispatch: "d2" }))) instanceof HeldError);
    assert.ok((await errorOf(nodes.renew("runs", { session: "run-2" }))) instanceof LeaseLostError);
    for (const call of ["claim", "renew", "release"] as const)
      for (const { nodes: who } of [clients.one, clients.two]) {
        const stale = await errorOf(who[call]("runs", { token: 99 }));
        assert.ok(stale instanceof LeaseLostError && stale.by?.principal === "runner-1", call);
      }
    const moved = await nodes.claim("runs", { session: "run-2", rebind: true });
    assert.deepEqual([moved.lease.session, moved.lease.token], ["run-2", lease.token]);
    assert.equal((await nodes.renew("runs", { session: "run-2", token: lease.token })).status, "renewed");
  });

  test("extend, reserve, and statuses that claim and end", async () => {
    const { one, two } = clients;
    await one.nodes.create({ id: "long", type: "task", title: "l" });
    const active = await one.nodes.setStatus("long", "active");
    assert.ok(active.lease !== undefined && "token" in active.lease && active.lease.by === "runner-1");
    const plain = await one.nodes.extend("long", "10m");
    assert.ok(plain.lease.expiresInMs > 54 * 60_000 && plain.cappedToMax === undefined);
    const capped = await one.nodes.extend("long", "7d");
    assert.deepEqual([capped.cappedToMax, capped.claimTtlMaxMs], [true, 8 * 3_600_000]);
    const reserved = await one.nodes.reserve("long");
    assert.deepEqual([reserved.lease.reserved, reserved.graceWindowMs], [true, 48 * 3_600_000]);
    const denied = await two.nodes.setStatus("long", "active");
    assert.ok(denied.lease !== undefined && "error" in denied.lease);
    assert.deepEqual([denied.lease.error, denied.lease.holder?.by], ["already_claimed", "runner-1"]);
    assert.ok((await errorOf(two.nodes.setStatus("long", "done"))) instanceof HeldError);
    const done = await one.nodes.setStatus("long", "done", { reason: "merged" });
    assert.equal(done.lease, undefined);
    const { status, lease, edges } = await one.nodes.get("long");
    assert.deepEqual([status, lease, edges[0]?.to], ["done", undefined, "runner-1"]);
  });

  test("many at once, each with its own result", async () => {
    const { one, two } = clients;
    for (const nth of [1, 2, 3]) await one.nodes.create({ id: `bulk-${nth}`, type: "issue", title: "b" });
    await two.nodes.claim("bulk-2");
    const claimed = await one.nodes.claimMany(["bulk-1", "bulk-2", "bulk-3"], { session: "run-1" });
    assert.deepEqual(
      claimed.results.map((result) => (result.ok ? result.lease.session : result.error.code)),
      ["run-1", "already_claimed", "run-1"],
    );
    const held = claimed.results[1];
    assert.ok(held !== undefined && !held.ok && held.holder?.expiresAt instanceof Date);
    const all = await one.nodes.renewMany(null, { session: "run-1" });
    const renewed = all.results.flatMap((result) => (result.ok ? [result.id] : []));
    assert.ok(renewed.includes("bulk-1") && renewed.includes("bulk-3") && !renewed.includes("bulk-2"));
    const freed = await one.nodes.releaseMany(["bulk-1", "bulk-2", "bulk-3"]);
    assert.deepEqual(
      freed.results.map(({ ok }) => ok),
      [true, false, true],
    );
  });
});

describe("the queue", () => {
  test("the best first, and why; next takes it; what others are on is counted", async () => {
    const { nodes } = ownSpace();
    await nodes.create({ id: "later", type: "task", title: "l", priority: "p3" });
    await nodes.create({ id: "first", type: "task", title: "f", priority: "p1" });
    const { items, nextCursor } = await nodes.queue({ type: "task" });
    assert.deepEqual([items.map(({ id }) => id), nextCursor], [["first", "later"], null]);
    assert.equal(items[0]?.why[0], "p1");
    const next = await nodes.next({ type: "task", session: "run-1" });
    assert.ok(next.status === "claimed");
    assert.deepEqual([next.node.id, next.lease.session], ["first", "run-1"]);
    assert.equal((await nodes.next({ type: "issue" })).status, "empty");
    const mine = await nodes.queue({ assignee: "me" });
    assert.deepEqual(
      mine.items.map(({ id, lease }) => [id, lease?.session]),
      [["first", "run-1"]],
    );
  });

  test("policy: read, and set by its revision; names of statuses are people's own", async () => {
    const { nodes } = ownSpace();
    const policy = await nodes.policy();
    assert.deepEqual([policy.revision, policy.claimTtlMs, policy.reclaimsMax], [0, 45 * 60_000, 5]);
    const types = {
      ...policy.types,
      // Words that elsewhere in a reply would be an instant's.
      chore: { statuses: { at: "planned", since: "active", over: "terminal" }, claimTtlMs: 60_000 },
    } as const;
    const set = await nodes.setPolicy(0, { claimTtlMs: 120_000, types });
    assert.deepEqual([set.revision, set.claimTtlMs, set.types["chore"]], [1, 120_000, types.chore]);
    assert.equal(await codeOf(nodes.setPolicy(0, {})), "conflict");
    assert.equal((await nodes.setPolicy(1, set)).revision, 2, "as it was read, with its revision");
    await nodes.create({ id: "chore-1", type: "chore", title: "c" });
    assert.ok((await nodes.claim("chore-1")).lease.expiresInMs <= 60_000);
  });
});

test("work leaves no claim behind, whatever the policy says by now that its status means", async () => {
  const { nodes } = ownSpace();
  const phases = ["terminal", "active", "planned", "terminal"] as const;
  for (const [revision, review] of phases.entries()) {
    const statuses = { open: "planned", active: "active", review, done: "terminal" } as const;
    await nodes.setPolicy(revision, { types: { task: { statuses } } });
    const id = `review-${revision}`;
    await nodes.create({ id, type: "task", title: id, priority: "p1" });
    const worked = await nodes.work({ wait: 5 }, () => "review");
    const { status, lease } = await nodes.get(id);
    assert.deepEqual([worked?.node.id, status, lease], [id, "review", undefined]);
    await nodes.setStatus(id, "done");
  }
});

describe("lost replies", () => {
  test("are asked for again, and what was done counts as done once", async () => {
    const direct = ownSpace().nodes;
    const seen: string[] = [];
    let fate: Fate["kind"] = "pass";
    const fateOf = ({ method, path, body }: Request): Fate => {
      seen.push(`${method} ${path} ${body}`);
      const kind = fate;
      fate = "pass";
      return { kind } as Fate;
    };
    await using proxy = await TcpProxy.start(server.port, () => performance.now(), { fateOf });
    const { nodes } = createClient({ url: proxy.url, token: adminToken, space: `own-${spaces}` });
    const losing = async <Result>(call: () => Promise<Result>): Promise<Result> => {
      seen.length = 0;
      fate = "lose-reply";
      const result = await call();
      assert.equal(seen[0], seen[1], "asked twice, in the same words");
      return result;
    };
    const made = await losing(() =>
      nodes.create({ id: "lost-1", type: "task", title: "one", priority: "p1" }),
    );
    assert.equal(made.revision, 1);
    assert.equal((await losing(() => nodes.update("lost-1", 1, { summary: "words" }))).revision, 2);
    await direct.create({ id: "lost-2", type: "task", title: "two" });
    const next = await losing(() => nodes.next({ session: "run-1" }));
    assert.ok(next.status === "claimed" && next.node.id === "lost-1");
    assert.equal((await direct.get("lost-2")).lease, undefined, "one was claimed, not two");
    const { token } = next.lease;
    assert.equal((await losing(() => nodes.release("lost-1", { token }))).edge, "removed");
    const again = await losing(() => nodes.claim("lost-1"));
    assert.deepEqual([again.status, again.lease.token], ["claimed", token + 1]);
    const many = await losing(() => nodes.claimMany(["lost-2"]));
    assert.ok(many.results[0]?.ok && many.results[0].status === "claimed");
    const done = await losing(() => nodes.setStatus("lost-1", "done", { token: again.lease.token }));
    assert.equal(done.status, "updated");
    assert.equal((await direct.get("lost-1")).status, "done");

    seen.length = 0;
    fate = "lose-reply";
    assert.equal(await codeOf(nodes.extend("lost-2", "1m")), "unreachable");
    assert.equal(seen.length, 1, "a second extend would have added to the first");
    // A conflict with somebody else's is one, though a reply was lost before.
    fate = "cut";
    assert.equal(await codeOf(nodes.create({ id: "lost-1", type: "task", title: "another" })), "conflict");
  });
});

describe("waiting for work", () => {
  test("ends as soon as there is some, over steps that are shorter than the wait", async () => {
    const { nodes } = ownSpace();
    const told: string[] = [];
    const waiting = nodes.next({ type: "task", wait: "10m", onWaiting: ({ status }) => told.push(status) });
    await until("it was told that there is nothing", () => told.length > 0);
    await nodes.create({ id: "new", type: "task", title: "n" });
    const next = await waiting;
    assert.ok(next.status === "claimed" && next.node.id === "new");
    assert.equal((await nodes.next({ type: "task", wait: 1 })).status, "empty");
  });

  test("goes on over a restart of the server, and says so", async () => {
    const own = await startServer();
    const { nodes } = clientsOf(own.url).one;
    const told: string[] = [];
    const waiting = nodes.next({ wait: "10m", onWaiting: ({ status }) => told.push(status) });
    await until("it was told that there is nothing", () => told.length > 0);
    own.kill("SIGKILL");
    await until("it was told of the trouble", () => told.includes("trouble"));
    await using again = await own.restart();
    await clientsOf(again.url).two.nodes.create({ id: "late", type: "task", title: "l" });
    const next = await waiting;
    assert.ok(next.status === "claimed" && next.node.id === "late" && next.lease.by === "runner-1");
  });

  test("a wait that is called off leaves no claim behind, though one was granted meanwhile", async () => {
    const direct = ownSpace().nodes;
    let asked = 0;
    const fateOf = (): Fate => {
      asked += 1;
      return { kind: "pass" };
    };
    await using proxy = await TcpProxy.start(server.port, () => performance.now(), { fateOf });
    const { nodes } = createClient({ url: proxy.url, token: adminToken, space: `own-${spaces}` });
    const leaving = new AbortController();
    const ended = assert.rejects(nodes.next({ wait: "10m", signal: leaving.signal }), /home time/);
    // The server has its second, long step, and answers it into the void.
    await until("it waits", () => asked === 2);
    proxy.part();
    await direct.create({ id: "ghost", type: "task", title: "g" });
    await until("it is claimed", async () => (await direct.get("ghost")).lease !== undefined);
    leaving.abort(new Error("home time"));
    proxy.heal();
    await ended;
    const { lease, edges } = await direct.get("ghost");
    assert.deepEqual([lease, edges], [undefined, []]);
  });
});
