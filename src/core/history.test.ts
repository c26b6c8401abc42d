/**
 * Random histories over few names, callers and sessions, against the invariants of lease servers: tokens only
 * rise, hold intervals never overlap, nothing is revived, nobody is harmed by a stranger, each lease ends once,
 * no wake-up is lost. test/core-model.ts says what is true; a failure prints its seed and the shortest history.
 * HISTORIES=5000 plays more of them.
 */
import { describe, test } from "node:test";
import fc from "fast-check";
import { type Command, History, names, plainClaim, principals } from "../../test/core-history.js";

const name = fc.constantFrom(...names);
const principal = fc.constantFrom(...principals);
const ttlMs = fc.integer({ min: 1, max: 30 });
const sometimes = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { freq: 2 });
const newest = fc.nat({ max: 3 });

const claim = (doing: fc.Arbitrary<"acquire" | "wait" | "first">, name: fc.Arbitrary<string>) =>
  fc.record({
    do: doing,
    names: fc.array(name, { minLength: 1, maxLength: 3 }),
    principal,
    ttlMs,
    withTtl: fc.boolean(),
    session: sometimes(newest),
    proof: fc.option(newest, { freq: 1 }),
    request: sometimes(fc.nat({ max: 2 })),
    fingerprint: fc.constantFrom("one", "one", "one", "two" as const),
    reentrant: fc.boolean(),
    delayMs: fc.constantFrom(0, 0, 5),
    metadata: fc.constantFrom(null, "x"),
  });

const leaseCall = fc.record({
  do: fc.constantFrom("renew", "renew", "renew twice", "extend", "release", "release" as const),
  lease: newest,
  ttlMs: sometimes(fc.integer({ min: 1, max: 80 })),
  wrong: fc.constantFrom("nothing", "nothing", "nothing", "id", "principal", "name" as const),
  repeatable: fc.boolean(),
});

const sessionCall = fc.record({
  do: fc.constantFrom("keepalive", "keepalive", "look", "end", "drain" as const),
  session: newest,
  wrong: fc.constantFrom(false, false, false, true),
});

function commandOn(name: fc.Arbitrary<string>): fc.Arbitrary<Command> {
  return fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        do: fc.constant("tick" as const),
        ms: fc.constantFrom(0, 1, 1, 2, 5, 9, 20, 60),
      }),
    },
    {
      weight: 8,
      arbitrary: claim(fc.constantFrom("acquire", "acquire", "wait", "wait", "first" as const), name),
    },
    { weight: 6, arbitrary: leaseCall },
    { weight: 2, arbitrary: fc.record({ do: fc.constantFrom("force", "inspect", "serve" as const), name }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("session" as const), principal, ttlMs }) },
    { weight: 2, arbitrary: sessionCall },
    { weight: 2, arbitrary: fc.record({ do: fc.constantFrom("sweep", "sweep", "clean" as const) }) },
  );
}

function holds(name: fc.Arbitrary<string>, numRuns: number): void {
  fc.assert(
    fc.property(fc.array(commandOn(name), { maxLength: 90, size: "max" }), (commands) => {
      const history = new History();
      history.play(commands);
      history.finish();
    }),
    { numRuns: Number(process.env.HISTORIES ?? numRuns), includeErrorInReport: true },
  );
}

describe("whatever happens, in whatever order", () => {
  test("the rules hold on one name", () => holds(fc.constant("k"), 150));
  test("the rules hold on names that overlap", () =>
    holds(fc.constantFrom("path:p", "path:p/q", "repo:global"), 150));
  test("the rules hold on several names", () => holds(name, 150));
});

test("a clock that moves to just before, at and after the last instant changes nothing too early", () => {
  fc.assert(
    fc.property(
      ttlMs,
      fc.integer({ min: -1, max: 1 }),
      fc.constantFrom("acquire", "inspect", "sweep" as const),
      (ttl, off, how) => {
        const history = new History();
        history.play([
          { ...plainClaim, do: "acquire", ttlMs: ttl },
          { do: "tick", ms: ttl + off },
        ]);
        const next: Record<typeof how, Command> = {
          acquire: { ...plainClaim, do: "acquire", principal: "b" },
          inspect: { do: "inspect", name: "k" },
          sweep: { do: "sweep" },
        };
        history.play([next[how]]);
        const expired = history.world.events.filter((event) => event.type === "expired").length;
        if (expired !== (off > 0 ? 1 : 0))
          throw new Error(`${expired} expired events ${off} ms after the last instant`);
      },
    ),
  );
});
