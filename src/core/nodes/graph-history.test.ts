/**
 * Random histories of a small work graph. After every step the queue is compared with a look at everything, and each
 * node with its lease, its edge and its history (test/core-graph.ts). HISTORIES=5000 plays more of them.
 */
import { test } from "node:test";
import fc from "fast-check";
import { Graph } from "../../../test/core-graph.js";

const ids = ["a", "b", "c", "d", "e"];
const id = fc.constantFrom(...ids);
const person = fc.constantFrom("ann", "bob");
const session = fc.constantFrom(null, null, "s1", "s2");
const priority = fc.constantFrom("p1", "p2", "p3" as const);

/** A type of which nothing can be worked on. */
const record = { statuses: { kept: "terminal" as const } };

type Deed = (graph: Graph) => unknown;

const deed: fc.Arbitrary<Deed> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.constantFrom(1, 5, 11, 30).map(
      (ms): Deed =>
        (graph) =>
          graph.tick(ms),
    ),
  },
  { weight: 2, arbitrary: fc.constant<Deed>((graph) => graph.sweep()) },
  {
    weight: 4,
    arbitrary: fc.tuple(id, fc.constantFrom("task", "issue", "question"), fc.option(priority)).map(
      ([of, type, rank]): Deed =>
        (graph) =>
          graph.create(of, rank === null ? { type } : { type, priority: rank }),
    ),
  },
  {
    weight: 5,
    arbitrary: fc.tuple(person, id, session, fc.boolean()).map(
      ([who, of, label, rebind]): Deed =>
        (graph) =>
          graph.claim(who, of, { session: label, rebind }),
    ),
  },
  {
    weight: 4,
    arbitrary: fc.tuple(person, fc.constantFrom(null, "task", "issue"), fc.constantFrom(null, "a", "c")).map(
      ([who, type, only]): Deed =>
        (graph) =>
          graph.next(who, type, only === null ? null : (of) => of === only),
    ),
  },
  {
    weight: 2,
    arbitrary: fc.tuple(person, id, session, fc.boolean()).map(
      ([who, of, label, isBlind]): Deed =>
        (graph) =>
          graph.renew(who, of, { session: label, isBlind }),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(person, id).map(
      ([who, of]): Deed =>
        (graph) =>
          graph.giveBack(who, of),
    ),
  },
  {
    weight: 2,
    arbitrary: person.map(
      (who): Deed =>
        (graph) =>
          graph.nextUnheard(who),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(person, id).map(
      ([who, of]): Deed =>
        (graph) =>
          graph.extend(who, of, 25),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(person, id).map(
      ([who, of]): Deed =>
        (graph) =>
          graph.reserve(who, of),
    ),
  },
  {
    weight: 3,
    arbitrary: fc.tuple(person, id).map(
      ([who, of]): Deed =>
        (graph) =>
          graph.release(who, of),
    ),
  },
  {
    weight: 4,
    arbitrary: fc
      .tuple(
        person,
        id,
        fc.constantFrom("open", "active", "done", "resolved", "answered", "kept"),
        fc.constantFrom(null, null, "by force"),
      )
      .map(
        ([who, of, status, force]): Deed =>
          (graph) =>
            graph.status(who, of, status, force),
      ),
  },
  {
    weight: 5,
    arbitrary: fc
      .tuple(
        fc.constantFrom("add", "add", "remove" as const),
        id,
        fc.constantFrom("blocks", "blocks", "relates-to", "assigned" as const),
        id,
      )
      .map(
        ([does, of, type, to]): Deed =>
          (graph) =>
            graph.edge(does, of, type, type === "assigned" ? "bob" : to),
      ),
  },
  {
    weight: 2,
    arbitrary: fc.tuple(id, fc.option(priority)).map(
      ([of, rank]): Deed =>
        (graph) =>
          graph.node(of) && graph.setPriority(of, rank),
    ),
  },
  {
    weight: 1,
    arbitrary: id.map(
      (of): Deed =>
        (graph) =>
          graph.unpark(of),
    ),
  },
  {
    weight: 1,
    arbitrary: id.map(
      (of): Deed =>
        (graph) =>
          graph.force(of),
    ),
  },
  {
    weight: 1,
    arbitrary: id.map(
      (of): Deed =>
        (graph) =>
          graph.look(of),
    ),
  },
  {
    weight: 2,
    arbitrary: fc.tuple(fc.constantFrom("task", "issue"), fc.constantFrom(undefined, null, record)).map(
      ([type, becomes]): Deed =>
        (graph) =>
          graph.setTypes(becomes === undefined ? {} : { [type]: becomes }),
    ),
  },
);

test("after every step of a random history queue, edges, leases and history agree", () => {
  fc.assert(
    fc.property(fc.array(deed, { minLength: 5, maxLength: 60 }), (deeds) => {
      const graph = new Graph();
      for (const of of ids.slice(0, 3)) graph.create(of);
      for (const does of deeds) does(graph);
    }),
    { numRuns: Number(process.env["HISTORIES"] ?? 400) },
  );
});
