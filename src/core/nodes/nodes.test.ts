/** The work graph's rules one by one. Each step also checks queue, edges, leases and history (test/core-graph.ts). */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Graph, graphPolicy } from "../../../test/core-graph.js";
import { floorKey } from "../keys.js";
import { policyProblem, rulesOf } from "./policy.js";

/** What came back, in a word. */
const word = (reply: object): string => {
  if ("refused" in reply) {
    const { refused, differs, why } = reply as { refused: string; differs?: string | null; why?: string };
    return [refused, differs ?? why].filter(Boolean).join(" ");
  }
  if ("status" in reply && "edge" in reply) return `${reply.status} ${reply.edge}`;
  if ("edge" in reply) return `edge ${reply.edge}`;
  return "ok";
};

const endOf = (reply: object): number => {
  assert.ok("holding" in reply, word(reply));
  return (reply.holding as { expiresAt: number }).expiresAt;
};

const nextOf = (graph: Graph, who: string, type: string | null = null): string => {
  const { outcome } = graph.next(who, type);
  return "node" in outcome && "claim" in outcome.node
    ? outcome.node.id
    : "empty" in outcome
      ? ""
      : word(outcome);
};

function graphOf(...ids: string[]): Graph {
  const graph = new Graph();
  for (const id of ids) {
    graph.create(id);
    graph.tick(1);
  }
  return graph;
}

describe("claim", () => {
  test("writes the edge once, renews one's own, refuses others and says who", () => {
    const graph = graphOf("a");
    assert.equal(word(graph.claim("ann", "a")), "claimed added");
    graph.tick(5);
    const again = graph.claim("ann", "a");
    assert.equal(word(again), "renewed kept");
    assert.equal(endOf(again), graph.now + 10);
    const refused = graph.claim("bob", "a");
    assert.equal(word(refused), "already_claimed");
    assert.ok("held" in refused && refused.held?.node.claim.by === "ann");
    assert.equal(word(graph.claim("bob", "none")), "unknown_node");
  });

  test("labels tell the runs of one person apart", () => {
    const graph = graphOf("a");
    graph.claim("ann", "a");
    assert.equal(word(graph.claim("ann", "a", { session: "s1" })), "renewed kept", "binds an unbound lease");
    assert.equal(word(graph.claim("ann", "a", { session: "s2" })), "already_claimed session");
    assert.equal(word(graph.renew("ann", "a", { session: "s2" })), "lease_lost session");
    assert.equal(word(graph.renew("ann", "a")), "ok", "none is no other");
    assert.equal(word(graph.claim("ann", "a", { session: "s2", rebind: true })), "renewed kept");
    assert.equal(word(graph.renew("ann", "a", { session: "s1" })), "lease_lost session");
    assert.equal(word(graph.claim("ann", "a", { dispatch: "d1" })), "already_claimed dispatch");
  });

  test("a dispatch is refused to any other, and to none without the token", () => {
    const graph = graphOf("a");
    graph.claim("ann", "a", { dispatch: "d1" });
    assert.equal(word(graph.claim("ann", "a", { dispatch: "d1" })), "renewed kept");
    assert.equal(word(graph.claim("ann", "a", { dispatch: "d2" })), "already_claimed dispatch");
    assert.equal(word(graph.claim("ann", "a")), "already_claimed dispatch", "it may be another's");
    assert.equal(word(graph.claim("ann", "a", { token: 1 })), "renewed kept");
    for (const status of ["done", "active"])
      assert.match(JSON.stringify(graph.status("ann", "a", status, { dispatch: "d2" })), /"dispatch"/);
    assert.deepEqual([graph.node("a")?.claim?.token, graph.node("a")?.status], [1, "active"]);
    assert.equal(word(graph.status("ann", "a", "done")), "ok", "as with a label: none is no other");
  });

  test("another token than the live one is lost, also for the same person", () => {
    const graph = graphOf("a");
    assert.equal(word(graph.claim("ann", "a", { token: 1 })), "lease_lost");
    graph.claim("ann", "a");
    assert.equal(word(graph.claim("ann", "a", { token: 1 })), "renewed kept");
    for (const call of ["claim", "renew", "release"] as const)
      assert.equal(word(graph[call]("ann", "a", { token: 2 })), "lease_lost token");
    for (const call of ["claim", "release"] as const) {
      assert.equal(word(graph[call]("bob", "a", { token: 2 })), "lease_lost token");
      assert.equal(word(graph[call]("bob", "a", { token: 1 })), "already_claimed");
    }
    graph.tick(11);
    graph.claim("ann", "a");
    assert.equal(word(graph.renew("ann", "a", { token: 1 })), "lease_lost token");
    assert.equal(word(graph.renew("ann", "a", { token: 2 })), "ok");
  });

  test("a lapsed lease is open to takeover; history has both, with the token of each", () => {
    const graph = graphOf("a");
    graph.claim("ann", "a");
    graph.tick(11);
    assert.equal(word(graph.renew("ann", "a")), "lease_lost");
    assert.equal(graph.node("a")?.edges[0]?.to, "ann", "the edge stays");
    assert.equal(word(graph.claim("bob", "a")), "claimed added");
    assert.deepEqual(
      graph.history("a").map(({ what, by, token, from }) => [what, by, token, from ?? null]),
      [
        ["created", "ann", null, null],
        ["claimed", "ann", 1, null],
        ["lapsed", "ann", 1, null],
        ["taken_over", "bob", 2, { by: "ann", token: 1 }],
      ],
    );
  });

  test("a repeated request gives the same claim while it lives, and is spent afterwards", () => {
    const graph = graphOf("a", "b");
    const request = { id: "r1", fingerprint: "x" };
    const first = graph.claim("ann", "a", { request });
    const again = graph.claim("ann", "a", { request });
    assert.equal(word(again), "claimed added");
    assert.equal(endOf(again), endOf(first));
    assert.equal(
      word(graph.claim("ann", "a", { request: { id: "r1", fingerprint: "y" } })),
      "request_reused",
    );
    graph.release("ann", "a");
    assert.equal(word(graph.claim("ann", "a", { request })), "request_spent");
    assert.deepEqual(graph.ready(), ["a", "b"]);
  });

  test("terminal, blocked and parked nodes are not ready", () => {
    const graph = graphOf("a", "b");
    graph.edge("add", "a", "blocks", "b");
    assert.equal(word(graph.claim("ann", "b")), "not_ready blocked");
    graph.status("ann", "a", "done");
    assert.equal(word(graph.claim("ann", "a")), "not_ready terminal");
    assert.equal(word(graph.claim("ann", "b")), "claimed added");
  });
});

describe("renew, extend, reserve, release", () => {
  test("a renew never takes back what an extend gave", () => {
    const graph = graphOf("a");
    const end = endOf(graph.claim("ann", "a"));
    const extended = graph.extend("ann", "a", 20);
    assert.equal(endOf(extended), end + 20);
    assert.ok("cappedTo" in extended && extended.cappedTo === null);
    assert.equal(endOf(graph.renew("ann", "a")), end + 20);
    const capped = graph.extend("ann", "a", 1000);
    assert.equal(endOf(capped), graph.now + 40);
    assert.ok("cappedTo" in capped && capped.cappedTo === 40);
    assert.equal(word(graph.extend("bob", "a", 5)), "lease_lost");
  });

  test("a reserved claim outlives its heartbeats, and is in work again with the next", () => {
    const graph = graphOf("a");
    graph.claim("ann", "a");
    assert.equal(endOf(graph.reserve("ann", "a")), graph.now + 60);
    graph.tick(50);
    graph.sweep();
    assert.equal(word(graph.claim("bob", "a")), "already_claimed");
    assert.equal(endOf(graph.renew("ann", "a")), graph.now + 10);
    assert.equal(graph.node("a")?.claim?.reserved, false);
    graph.reserve("ann", "a");
    graph.tick(61);
    graph.sweep();
    assert.equal(graph.node("a")?.lapses, 0, "a reservation that ran out does not count");
  });

  test("nobody waits for a grace window after a restore, also of one that was extended meanwhile", () => {
    const graph = graphOf("a");
    const end = endOf(graph.claim("ann", "a"));
    const reserved = endOf(graph.reserve("ann", "a"));
    assert.equal(endOf(graph.extend("ann", "a", 5)), reserved, "it never shortens");
    assert.equal(graph.world.record(floorKey("default"))?.ttlHighMs, 15);
    assert.equal(endOf(graph.renew("ann", "a")), end + 5);
  });

  test("release is idempotent, clears an edge of one's own, and never another's claim", () => {
    const graph = graphOf("a");
    assert.equal(word(graph.release("ann", "a")), "edge skipped");
    graph.claim("ann", "a");
    assert.equal(word(graph.release("bob", "a")), "already_claimed");
    assert.equal(word(graph.release("ann", "a")), "edge removed");
    graph.claim("ann", "a");
    graph.tick(11);
    assert.equal(word(graph.release("ann", "a")), "edge removed", "a lingering edge");
    assert.equal(word(graph.release("ann", "a")), "edge skipped");
  });

  test("a release of what is over leaves the edge: the record of who carried it", () => {
    const graph = graphOf("a");
    graph.claim("ann", "a");
    graph.status("ann", "a", "done");
    const { length } = graph.history("a");
    assert.equal(word(graph.release("ann", "a")), "edge skipped");
    assert.equal(graph.node("a")?.edges[0]?.to, "ann");
    assert.equal(graph.history("a").length, length);
  });

  test("a renew after a reserve is not below what an extend gave, before or meanwhile", () => {
    const graph = graphOf("a");
    graph.claim("ann", "a");
    const given = endOf(graph.extend("ann", "a", 20));
    graph.reserve("ann", "a");
    graph.tick(5);
    assert.equal(endOf(graph.reserve("ann", "a")), graph.now + 60, "again");
    assert.equal(endOf(graph.renew("ann", "a")), given);
    graph.reserve("ann", "a");
    const reserved = graph.extend("ann", "a", 5);
    assert.equal(endOf(reserved), graph.now + 60, "the grace window counts until then");
    assert.ok("cappedTo" in reserved && reserved.cappedTo === null);
    assert.equal(endOf(graph.renew("ann", "a")), given + 5);
    assert.equal(graph.node("a")?.claim?.workUntil, undefined);
  });

  test("whose claim was ended by force learns by whom and why; nobody else does", () => {
    const graph = graphOf("a");
    graph.claim("ann", "a");
    graph.force("a");
    const told = graph.renew("ann", "a");
    assert.ok("previous" in told);
    assert.deepEqual([told.previous?.by, told.previous?.reason, told.previous?.token], ["root", "stuck", 1]);
    graph.claim("bob", "a");
    for (const token of [null, 1]) {
      const after = graph.extendWith("ann", "a", token);
      assert.ok("previous" in after && after.previous?.by === "root");
    }
    for (const [who, token] of [
      ["cyd", null],
      ["ann", 7],
    ] as const) {
      const other = graph.extendWith(who, "a", token);
      assert.ok("previous" in other && other.previous === null);
    }
  });

  test("a claim moved to another run is history, as is the run of a reservation", () => {
    const graph = graphOf("a");
    graph.claim("ann", "a", { session: "s1" });
    graph.claim("ann", "a", { session: "s2", rebind: true });
    graph.renew("ann", "a", { session: "s2" });
    graph.reserve("ann", "a");
    assert.deepEqual(
      graph.history("a").map(({ what, session, token }) => [what, session ?? null, token]),
      [
        ["created", null, null],
        ["claimed", "s1", 1],
        ["rebound", "s2", 1],
        ["reserved", "s2", 1],
      ],
    );
  });
});

describe("status", () => {
  test("an active status claims; if that is refused it lands all the same", () => {
    const graph = graphOf("a");
    const first = graph.status("ann", "a", "active");
    assert.ok("claim" in first && first.claim !== null && word(first.claim) === "claimed added");
    const second = graph.status("bob", "a", "open");
    assert.ok("node" in second && second.node.status === "open" && second.node.claim?.by === "ann");
    const third = graph.status("bob", "a", "active");
    assert.ok("claim" in third && third.claim !== null && word(third.claim) === "already_claimed");
    assert.equal(graph.node("a")?.status, "active");
    assert.equal(word(graph.status("ann", "a", "solved")), "unknown_status");
  });

  test("a terminal status ends one's own lease and keeps the edge; another's only by force", () => {
    const graph = graphOf("a");
    graph.claim("ann", "a");
    assert.equal(word(graph.status("bob", "a", "done")), "already_claimed");
    assert.equal(graph.node("a")?.status, "open");
    graph.status("ann", "a", "done");
    assert.deepEqual(graph.node("a")?.claim, null);
    assert.equal(graph.node("a")?.edges[0]?.to, "ann");
    graph.status("ann", "a", "active");
    assert.equal(word(graph.status("root", "a", "abandoned", "no longer wanted")), "ok");
    assert.equal(graph.history("a").at(-1)?.reason, "no longer wanted");
    assert.deepEqual(
      graph.history("a").flatMap(({ what, by, token }) => (what === "status" ? [[by, token]] : [])),
      [
        ["ann", 1],
        ["ann", null],
        ["root", null],
      ],
      "a token is that of one's own lease",
    );
    assert.equal(word(graph.renew("ann", "a")), "lease_lost");
  });

  test("what it blocks is free, and blocked again when it is opened again", () => {
    const graph = graphOf("a", "b", "c");
    graph.edge("add", "a", "blocks", "b");
    graph.edge("add", "c", "blocks", "b");
    assert.deepEqual(graph.ready(), ["a", "c"]);
    graph.status("ann", "a", "done");
    graph.status("ann", "c", "done");
    assert.deepEqual(graph.ready(), ["b"]);
    graph.status("ann", "a", "open");
    assert.deepEqual(graph.ready(), ["a"]);
    graph.edge("remove", "a", "blocks", "b");
    assert.deepEqual(graph.ready(), ["a", "b"]);
  });
});

describe("edges", () => {
  test("to nothing, to itself, and in a circle are refused", () => {
    const graph = graphOf("a", "b", "c");
    assert.equal(word(graph.edge("add", "a", "relates-to", "zzz")), "edge_to_nothing");
    assert.equal(word(graph.edge("add", "a", "blocks", "a")), "edge_to_itself");
    graph.edge("add", "a", "blocks", "b");
    graph.edge("add", "b", "blocks", "c");
    const circle = graph.edge("add", "c", "blocks", "a");
    assert.ok("path" in circle);
    assert.deepEqual(circle.path, ["c", "a", "b", "c"]);
    assert.equal(word(graph.edge("add", "c", "relates-to", "a")), "ok");
    assert.ok("changed" in graph.edge("add", "a", "blocks", "b"));
  });

  test("an assigned edge is one, and a live lease keeps its own", () => {
    const graph = graphOf("a");
    graph.edge("add", "a", "assigned", "bob");
    assert.equal(word(graph.edge("add", "a", "assigned", "cyd")), "assigned_to_other");
    assert.equal(word(graph.claim("ann", "a")), "claimed added", "an edge is no lease");
    assert.equal(word(graph.edge("remove", "a", "assigned", "ann")), "already_claimed");
    assert.equal(graph.history("a").at(-1)?.what, "claimed", "nobody had carried it");
  });

  test("a node takes no more than its share", () => {
    const graph = graphOf("a", ...Array.from({ length: 101 }, (_, i) => `n${i}`));
    for (let i = 0; i < 100; i++) graph.edge("add", `n${i}`, "blocks", "a");
    assert.equal(word(graph.edge("add", "n100", "blocks", "a")), "edges_full");
    graph.status("ann", "a", "done");
    assert.equal(graph.node("n0")?.blocking, 0);
  });

  test("a node that is full of links can be claimed, taken over and released", () => {
    const graph = graphOf("hub", ...Array.from({ length: 101 }, (_, i) => `n${i}`));
    for (let i = 0; i < 100; i++) graph.edge("add", "hub", i % 2 === 0 ? "blocks" : "relates-to", `n${i}`);
    for (const type of ["relates-to", "blocks"] as const)
      assert.equal(word(graph.edge("add", "hub", type, "n100")), "edges_full");
    assert.equal(nextOf(graph, "ann"), "hub");
    assert.equal(word(graph.edge("add", "hub", "relates-to", "n100")), "edges_full");
    graph.tick(11);
    assert.equal(word(graph.claim("bob", "hub")), "claimed added");
    assert.equal(word(graph.release("bob", "hub")), "edge removed");
    assert.equal(word(graph.edge("add", "hub", "assigned", "cyd")), "ok");
  });
});

describe("next", () => {
  test("priority, then how much it blocks, then age; each once", () => {
    const graph = graphOf("old", "blocker", "x", "y");
    graph.create("urgent", { priority: "p1" });
    graph.create("later", { priority: "p3" });
    graph.edge("add", "blocker", "blocks", "x");
    graph.edge("add", "blocker", "blocks", "y");
    const taken = Array.from({ length: 5 }, () => nextOf(graph, "ann"));
    assert.deepEqual(taken, ["urgent", "later", "blocker", "old", ""]);
    graph.status("ann", "blocker", "done");
    assert.equal(nextOf(graph, "bob"), "x");
  });

  test("only of a type, and only what the caller may touch", () => {
    const graph = graphOf("a", "b");
    graph.create("i", { type: "issue" });
    assert.equal(nextOf(graph, "ann", "issue"), "i");
    const { outcome } = graph.next("ann", null, (id) => id === "b");
    assert.ok("node" in outcome && outcome.node.id === "b");
    assert.ok("empty" in graph.next("ann", null, () => false).outcome);
  });

  test("work that keeps losing its carriers is parked, and can be given another chance", () => {
    const graph = graphOf("a", "b");
    for (const who of ["ann", "bob", "cyd"]) {
      assert.equal(word(graph.claim(who, "a")), "claimed added");
      graph.tick(11);
      graph.sweep();
    }
    assert.deepEqual(graph.ready(), ["b"]);
    assert.equal(word(graph.claim("ann", "a")), "not_ready parked");
    assert.deepEqual(
      graph.node("a")?.carriers.map(({ by }) => by),
      ["ann", "bob", "cyd"],
    );
    graph.unpark("a");
    assert.equal(word(graph.unpark("a")), "not_parked");
    assert.equal(nextOf(graph, "ann"), "a");
  });

  test("a clean release forgets the lapses", () => {
    const graph = graphOf("a");
    for (let round = 0; round < 5; round++) {
      graph.claim("ann", "a");
      graph.tick(11);
      graph.sweep();
      graph.claim("ann", "a");
      graph.release("ann", "a");
    }
    assert.deepEqual(graph.ready(), ["a"]);
  });

  test("an admin's force puts it back, and counts as a loss", () => {
    const graph = graphOf("a");
    graph.claim("ann", "a");
    graph.force("a");
    assert.deepEqual(graph.ready(), ["a"]);
    const last = graph.history("a").at(-1);
    assert.deepEqual(
      [last?.what, last?.by, last?.reason, last?.from?.by],
      ["forced", "root", "stuck", "ann"],
    );
    assert.equal(graph.node("a")?.lapses, 1);
  });
});

test("a policy must fit together", () => {
  const { nodes } = graphPolicy;
  assert.equal(policyProblem(nodes), null);
  assert.match(policyProblem({ ...nodes, claimTtlMs: 100 }) ?? "", /above claim_ttl_max_ms/);
  const only = { statuses: { active: "active" as const } };
  assert.match(policyProblem({ ...nodes, types: { odd: only } }) ?? "", /needs a planned one/);
  const first = { statuses: { todo: "planned" as const, "1": "planned" as const } };
  assert.match(policyProblem({ ...nodes, types: { odd: first } }) ?? "", /needs a letter .* not 1/);
  assert.equal(rulesOf(nodes, "constructor"), null);
  assert.equal(
    rulesOf({ ...nodes, types: { note: { statuses: { kept: "terminal" } } } }, "note")?.isWork,
    false,
  );
});

describe("a type that the policy drops, or makes a record", () => {
  for (const [what, becomes] of [
    ["dropped", null],
    ["a record", { statuses: { kept: "terminal" as const } }],
  ] as const) {
    const end = becomes === null ? "done" : "kept";

    test(`${what}: its open nodes can still be taken, kept and ended`, () => {
      const graph = graphOf();
      graph.create("old", { type: "question" });
      graph.create("held", { type: "question" });
      graph.claim("ann", "held");
      graph.tick(1);
      graph.create("new");
      graph.setTypes({ question: becomes });
      assert.equal(word(graph.renew("ann", "held")), "ok");
      assert.equal(word(graph.extend("ann", "held", 5)), "ok");
      assert.equal(word(graph.status("ann", "held", end)), "ok");
      assert.equal(nextOf(graph, "bob"), "old");
      assert.equal(nextOf(graph, "bob"), "new");
      assert.equal(word(graph.status("bob", "old", "nonsense")), "unknown_status");
      assert.equal(word(graph.status("bob", "old", end)), "ok");
      assert.deepEqual(graph.ready(), []);
      assert.equal(word(graph.claim("ann", "old")), becomes === null ? "not_ready terminal" : "not_work");
    });
  }

  test("its losses count by the space's rules", () => {
    const graph = graphOf();
    graph.create("old", { type: "question" });
    graph.setTypes({ question: null });
    for (const who of ["ann", "bob", "cyd"]) {
      graph.claim(who, "old");
      graph.tick(11);
      graph.sweep();
    }
    assert.equal(word(graph.claim("ann", "old")), "not_ready parked");
  });
});
