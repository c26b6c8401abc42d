// Working on the next node: the claim is renewed, ended as the work says, given back when it fails, and when it is lost
// the work is told before another can have the node. Claims last two seconds here.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { HoldfastError, LeaseLostError, type NodeClaim } from "../src/client/entry.js";
import { type Clients, clientsOf, until } from "./client-lab.js";
import { TcpProxy } from "./evidence/proxy.js";
import { type Server, startServer, temporaryDir } from "./server.js";

const ttlMs = 2000;
/** Each test has a type of its own, so that one does not take another's work. */
const types = [
  "plain",
  "quiet",
  "failing",
  "open",
  "kept",
  "forced",
  "dropped",
  "apart",
  "left",
  "stopped",
  "none",
  "crew",
];
const statuses = { open: "planned", active: "active", done: "terminal" };

let server: Server;
let clients: Clients;

before(async () => {
  const file = join(temporaryDir("holdfast-policy-"), "policy.json");
  const policy = {
    claim_ttl_ms: ttlMs,
    types: {
      ...Object.fromEntries(types.map((type) => [type, { statuses }])),
      // Parked as soon as it was lost once.
      poison: { statuses, claim_ttl_ms: 1000, reclaims_max: 0 },
    },
  };
  writeFileSync(file, JSON.stringify(policy));
  server = await startServer({ env: { HOLDFAST_RATE_LIMIT: "off", HOLDFAST_POLICY_FILE: file } });
  clients = clientsOf(server.url);
});
after(() => server[Symbol.asyncDispose]());

async function made(type: string, id = `${type}-1`): Promise<string> {
  await clients.one.nodes.create({ id, type, title: id });
  return id;
}

/** What others see of it: its status, who is on it, and who is recorded as its carrier. */
async function seen(id: string): Promise<(string | null)[]> {
  const { status, lease, edges } = await clients.two.nodes.get(id);
  return [status, lease?.by ?? null, edges.find(({ type }) => type === "assigned")?.to ?? null];
}

const aborted = (signal: AbortSignal): Promise<unknown> =>
  new Promise((resolve) => signal.addEventListener("abort", () => resolve(signal.reason), { once: true }));

describe("work", () => {
  test("is renewed while it runs, and ends with the status that it returns", async () => {
    const id = await made("plain");
    const worked = await clients.one.nodes.work({ type: "plain", session: "run-1" }, async (claim) => {
      const first = claim.safeUntil;
      assert.deepEqual(
        [claim.node.id, claim.session, claim.name, claim.token],
        [id, "run-1", `node:${id}`, 1],
      );
      const deadline = Date.now() + 2.5 * ttlMs;
      while (Date.now() < deadline) {
        const rival = await clients.two.nodes.next({ type: "plain" });
        assert.equal(rival.status, "empty", "a rival got it");
        await delay(50);
      }
      claim.assertHeld();
      assert.ok(claim.held && !claim.signal.aborted && claim.safeUntil > first);
      return "done";
    });
    assert.deepEqual([worked?.node.id, worked?.token, worked?.status], [id, 1, "done"]);
    assert.deepEqual(await seen(id), ["done", null, "runner-1"]);
    const { history } = await clients.two.nodes.history(id);
    assert.deepEqual(
      history.map(({ what }) => what),
      ["created", "claimed", "status"],
    );
  });

  test("that returns nothing hands the node back", async () => {
    const id = await made("quiet");
    const worked = await clients.one.nodes.work({ type: "quiet" }, async () => {});
    assert.equal(worked?.status, null);
    assert.deepEqual(await seen(id), ["open", null, null]);
  });

  test("that fails hands it back too, and what it failed with is thrown", async () => {
    const id = await made("failing");
    const failure = new Error("no disk");
    await assert.rejects(
      clients.one.nodes.work({ type: "failing" }, () => Promise.reject(failure)),
      failure,
    );
    assert.deepEqual(await seen(id), ["open", null, null]);
    const wrong = (() => 5) as unknown as () => string;
    await assert.rejects(clients.one.nodes.work({ type: "failing" }, wrong), /must return a status/);
    await assert.rejects(
      clients.one.nodes.work({ type: "failing" }, () => "dnoe"),
      /There is no status dnoe/,
    );
    assert.deepEqual(await seen(id), ["open", null, null]);
  });

  test("that returns a status which is not the end leaves it free for others", async () => {
    const id = await made("open");
    await clients.one.nodes.work({ type: "open" }, async ({ token }) => {
      await clients.one.nodes.setStatus(id, "active", { token });
      return "open";
    });
    assert.deepEqual(await seen(id), ["open", null, null]);
  });

  test("can end its claim itself: what it reserved stays reserved, though it fails then", async () => {
    const id = await made("kept");
    let claim: NodeClaim | undefined;
    const failing = clients.one.nodes.work({ type: "kept" }, async (mine) => {
      claim = mine;
      await mine.reserve();
      assert.throws(() => mine.assertHeld(), /was reserved/);
      throw new Error("home time");
    });
    await assert.rejects(failing, /home time/);
    await delay(ttlMs);
    assert.deepEqual(await seen(id), ["open", "runner-1", "runner-1"]);
    assert.equal((await clients.one.nodes.get(id)).lease?.reserved, true);
    assert.ok(claim?.released);
    const again = await clients.one.nodes.claim(id);
    assert.equal(again.lease.token, claim.token);
  });

  test("learns of a force release at the next renewal, and fails with it", async () => {
    const id = await made("forced");
    const work = clients.one.nodes.work({ type: "forced" }, async (claim) => {
      const reason = await aborted(claim.signal);
      assert.ok(reason instanceof LeaseLostError && !claim.held);
      return "done";
    });
    await until("it is claimed", async () => (await seen(id))[1] === "runner-1");
    await clients.admin.locks.forceRelease(`node:${id}`, "gone");
    await assert.rejects(
      work,
      (error) =>
        error instanceof LeaseLostError &&
        error.resource === `node:${id}` &&
        /was ended by operator at .*: gone\./.test(error.message),
    );
    assert.equal((await seen(id))[0], "open");
  });

  test("goes on and ends though the policy drops its type meanwhile", async () => {
    const id = await made("dropped");
    const { nodes } = clients.admin;
    await clients.one.nodes.work({ type: "dropped" }, async (claim) => {
      const policy = await nodes.policy();
      const { dropped: _, ...others } = policy.types;
      await nodes.setPolicy(policy.revision, { ...policy, types: others });
      await delay(ttlMs * 1.2);
      claim.assertHeld();
      return "done";
    });
    assert.deepEqual(await seen(id), ["done", null, "runner-1"]);
  });

  test("the server out of reach: the signal is aborted before another has the node", async () => {
    await made("apart");
    await using proxy = await TcpProxy.start(server.port, () => performance.now());
    const { one } = clientsOf(proxy.url, { retries: 0, timeout: "500ms" });
    const events: string[] = [];
    let rival: Promise<void> | undefined;
    const work = one.nodes.work({ type: "apart" }, async (claim) => {
      proxy.part();
      rival = clients.two.nodes.next({ type: "apart", wait: "1m" }).then((taken) => {
        assert.ok(taken.status === "claimed" && taken.lease.token === claim.token + 1);
        events.push("taken");
      });
      await aborted(claim.signal);
      events.push("told");
      claim.assertHeld();
    });
    await assert.rejects(work, LeaseLostError);
    await rival;
    assert.deepEqual(events, ["told", "taken"]);
  });
});

describe("the caller's signal", () => {
  test("ends the wait", async () => {
    const leaving = new AbortController();
    const onWaiting = (): void => leaving.abort(new Error("home time"));
    const work = clients.one.nodes.work({ type: "left", signal: leaving.signal, onWaiting }, () => "done");
    await assert.rejects(work, /home time/);
    await assert.rejects(
      clients.one.nodes.work({ type: "left", signal: leaving.signal }, () => assert.fail("it ran")),
      /home time/,
    );
  });

  test("asks the work to stop; the claim is kept until it has", async () => {
    const id = await made("stopped");
    const leaving = new AbortController();
    const work = clients.one.nodes.work({ type: "stopped", signal: leaving.signal }, async (claim) => {
      leaving.abort(new Error("home time"));
      assert.ok(claim.signal.aborted && claim.held);
      await delay(1.5 * ttlMs);
      assert.equal((await seen(id))[1], "runner-1");
      claim.signal.throwIfAborted();
    });
    await assert.rejects(work, /home time/);
    assert.deepEqual(await seen(id), ["open", null, null]);
  });

  test("without work there is none: null", async () => {
    assert.equal(await clients.one.nodes.work({ type: "none", wait: 0 }, () => assert.fail("it ran")), null);
  });
});

test("work that lost its carriers is parked until somebody puts it back", async () => {
  const { nodes } = clients.one;
  const id = await made("poison");
  const { lease } = await nodes.claim(id);
  await until("it is lost", async () => (await seen(id))[1] === null);
  assert.equal((await nodes.next({ type: "poison" })).status, "empty");
  const refused = await nodes.claim(id).catch((error: unknown) => error);
  assert.ok(refused instanceof HoldfastError && refused.code === "not_ready");
  const { items } = await nodes.queue({ parked: true });
  assert.deepEqual([items.length, items[0]?.id, items[0]?.reclaims], [1, id, 1]);
  assert.ok(items[0]?.parked?.at instanceof Date);
  assert.deepEqual(items[0].parked.carriers, [{ by: "runner-1", token: lease.token }]);
  const { node } = await nodes.unpark(id, "mended");
  assert.deepEqual([node.parked, node.reclaims], [undefined, 0]);
  const next = await nodes.next({ type: "poison" });
  assert.ok(next.status === "claimed" && next.node.id === id);
});

test("a crew drains a graph: each node is done once, in the order that blocks allows", async () => {
  const ids = Array.from({ length: 12 }, (_, nth) => `crew-${nth}`);
  for (const id of ids) await made("crew", id);
  for (const [nth, id] of ids.entries())
    if (nth > 0 && nth % 3 !== 0) await clients.one.nodes.addEdge(ids[nth - 1] ?? "", "blocks", id);
  const done: string[] = [];
  const member = async (name: string, { nodes }: Clients["one"]): Promise<void> => {
    for (;;) {
      const worked = await nodes.work({ type: "crew", session: name, wait: 1 }, async ({ node }) => {
        await delay(20);
        done.push(node.id);
        return "done";
      });
      if (worked === null) return;
    }
  };
  await Promise.all([
    member("a", clients.one),
    member("b", clients.one),
    member("c", clients.two),
    member("d", clients.two),
  ]);
  assert.deepEqual([...done].sort(), [...ids].sort());
  const place = (nth: number): number => done.indexOf(`crew-${nth}`);
  for (const nth of ids.keys()) if (nth % 3 !== 0) assert.ok(place(nth - 1) < place(nth), done.join(" "));
});
