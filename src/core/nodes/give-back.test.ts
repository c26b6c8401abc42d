/** Claims that nobody heard of, requests that come again, and what history says of both. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Graph } from "../../../test/core-graph.js";
import { lockKey } from "../keys.js";

const nodesOf = (...ids: string[]): Graph => {
  const graph = new Graph();
  for (const id of ids) {
    graph.create(id);
    graph.tick(1);
  }
  return graph;
};

const refusalOf = (reply: object): string | null => ("refused" in reply ? String(reply.refused) : null);
const story = (graph: Graph, id: string): string[] =>
  graph.history(id).map(({ what, by, token }) => `${what} ${by} ${token}`);

describe("a claim that nobody heard of", () => {
  test("is given back as if it had never been: losses, edge, last carrier and attempts", () => {
    const graph = nodesOf("a");
    for (const _ of [1, 2]) {
      graph.claim("bob", "a");
      graph.tick(11);
      graph.sweep();
    }
    const before = graph.node("a");
    assert.deepEqual([before?.lapses, before?.edges[0]?.to], [2, "bob"]);
    graph.nextUnheard("ann");
    const { lapses, edges, claim, lastCarrier } = graph.node("a") ?? {};
    assert.deepEqual([lapses, edges, claim], [2, before?.edges, null]);
    assert.deepEqual(lastCarrier, { by: "bob", token: 2 });
    const lock = graph.world.record(lockKey("default", "node:a"));
    assert.deepEqual([lock?.token, lock?.attempts], [3, 2], "the token is spent, the attempt was none");
    assert.deepEqual(story(graph, "a").slice(-2), ["taken_over ann 3", "given_back ann 3"]);
    assert.deepEqual(graph.history("a").at(-1)?.edge, { type: "assigned", to: "bob" });
    graph.claim("ann", "a");
    assert.deepEqual(graph.history("a").at(-1)?.from, { by: "bob", token: 2 });
  });

  test("is kept once its holder names the node in a call that succeeds", () => {
    const calls: readonly (readonly [string, (graph: Graph) => object])[] = [
      ["claim", (graph) => graph.claim("ann", "a")],
      ["renew", (graph) => graph.renew("ann", "a")],
      ["extend", (graph) => graph.extend("ann", "a", 5)],
      ["reserve", (graph) => graph.reserve("ann", "a")],
      ["status", (graph) => graph.status("ann", "a", "active")],
    ];
    for (const [what, call] of calls) {
      const graph = nodesOf("a");
      graph.next("ann");
      assert.equal(refusalOf(call(graph)), null);
      assert.equal(graph.giveBack("ann", "a"), false, what);
      assert.equal(graph.node("a")?.claim?.by, "ann");
    }
  });

  test("is not kept by a call that is refused, or that names no node", () => {
    const graph = nodesOf("a");
    graph.next("ann");
    graph.renew("ann", "a", { session: "s1" });
    assert.equal(graph.giveBack("ann", "a"), false, "a label is a name");
    graph.release("ann", "a");
    graph.next("ann");
    assert.equal(refusalOf(graph.claim("bob", "a")), "already_claimed");
    assert.equal(refusalOf(graph.claim("ann", "a", { dispatch: "d1" })), "already_claimed");
    assert.equal(refusalOf(graph.renew("ann", "a", { token: 9 })), "lease_lost");
    assert.equal(refusalOf(graph.renew("ann", "a", { isBlind: true })), null);
    assert.ok(graph.giveBack("ann", "a"));
  });

  test("only that claim is, and only one that was not asked for by its name", () => {
    const graph = nodesOf("a");
    graph.next("ann");
    assert.equal(graph.giveBack("ann", "a", 9), false);
    assert.equal(graph.giveBack("bob", "a"), false);
    assert.ok(graph.giveBack("ann", "a"));
    assert.equal(graph.giveBack("ann", "a", 1), false);
    graph.claim("ann", "a");
    assert.equal(graph.giveBack("ann", "a"), false);
  });
});

test("a renewal of all leaves alone what is reserved", () => {
  const graph = nodesOf("a");
  graph.claim("ann", "a");
  graph.reserve("ann", "a");
  const kept = graph.node("a");
  assert.equal(refusalOf(graph.renew("ann", "a", { isBlind: true })), null);
  assert.deepEqual(graph.node("a"), kept);
});

test("a takeover names the last token of who carried it, also if that was a reservation", () => {
  const graph = nodesOf("a");
  graph.claim("ann", "a");
  graph.tick(11);
  graph.claim("ann", "a");
  graph.reserve("ann", "a");
  graph.tick(100);
  graph.claim("bob", "a");
  assert.deepEqual(graph.history("a").at(-1)?.from, { by: "ann", token: 2 });
});

test("an admin's end of the work parks nothing", () => {
  const graph = nodesOf("a");
  for (const _ of [1, 2]) {
    graph.claim("ann", "a");
    graph.force("a");
  }
  graph.claim("ann", "a");
  graph.status("root", "a", "done", "enough");
  assert.deepEqual(story(graph, "a").slice(-2), ["forced root 3", "status root null"]);
});

describe("a request id", () => {
  const request = { id: "r1", fingerprint: "x" };
  const other = { id: "r1", fingerprint: "y" };

  test("that comes again with another token than its claim's is lost", () => {
    const graph = nodesOf("a");
    graph.claim("ann", "a", { request });
    assert.equal(refusalOf(graph.claim("ann", "a", { request, token: 9 })), "lease_lost");
    assert.equal(refusalOf(graph.claim("ann", "a", { request, token: 1 })), null);
  });

  test("of many nodes is the whole call's: it fits no other nodes and no other call", () => {
    const graph = nodesOf("a", "b", "c");
    graph.claim("bob", "c");
    const first = graph.claimMany("ann", ["c", "a"], request);
    assert.deepEqual(first.map(refusalOf), ["already_claimed", null]);
    assert.deepEqual(graph.claimMany("ann", ["c", "a"], request).map(refusalOf), ["already_claimed", null]);
    assert.deepEqual(graph.claimMany("ann", ["b"], other).map(refusalOf), ["request_reused"]);
    assert.equal(refusalOf(graph.claim("ann", "b", { request: other })), "request_reused");
    assert.equal(refusalOf(graph.ask("ann", { request: other }).outcome), "request_reused");
    assert.equal(graph.node("b")?.claim, null);
    graph.claim("ann", "b", { request: { id: "r2", fingerprint: "x" } });
    const late = graph.claimMany("ann", ["a"], { id: "r2", fingerprint: "z" });
    assert.deepEqual(late.map(refusalOf), ["request_reused"]);
  });

  test("of many nodes that were all refused may be used again", () => {
    const graph = nodesOf("a", "b");
    graph.claim("bob", "a");
    assert.deepEqual(graph.claimMany("ann", ["a"], request).map(refusalOf), ["already_claimed"]);
    assert.deepEqual(graph.claimMany("ann", ["b"], other).map(refusalOf), [null]);
  });

  test("shows nothing of a node that its caller may not touch any more", () => {
    const graph = nodesOf("a");
    const accepts = (id: string): boolean => id !== "a";
    graph.ask("ann", { request });
    assert.equal(refusalOf(graph.ask("ann", { request, accepts }).outcome), "out_of_scope");
    graph.release("ann", "a");
    assert.equal(refusalOf(graph.ask("ann", { request, accepts }).outcome), "out_of_scope");
    assert.equal(refusalOf(graph.ask("ann", { request }).outcome), "request_spent");
  });
});
