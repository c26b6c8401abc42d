// A process with a data file of its own, to be killed and to have its disk broken. Says on stdout, line by line,
// what was acknowledged to it, the moment it was.
//   node sqlite-child.js PATH OPTIONS hold                 opens, says `ready`, waits
//   node sqlite-child.js PATH OPTIONS load CALLERS         increments names for ever: `ack NAME TOKEN`
//   node sqlite-child.js PATH OPTIONS random SEED BREADTH  the life of that seed: `ack STEP`
//   node sqlite-child.js PATH OPTIONS batches              obeys sqlite-faults.test.ts
import { createInterface } from "node:readline";
import { openSqlite, type SqliteOptions } from "../src/engines/sqlite/open.js";
import { systemClocks } from "../src/store/clock.js";
import { StoreError } from "../src/store/store.js";
import { narrow, randomWrites, wide } from "./random-writes.js";
import { bump, TurnedClocks, tokenOf, until } from "./store-lab.js";

const [path = "", options = "{}", mode = "", argument = "", breadth = ""] = process.argv.slice(2);
const say = (line: string): void => {
  process.stdout.write(`${line}\n`);
};

let recovered: () => void = () => undefined;
const onTrouble = (what: string | null): void => {
  if (what === null) recovered();
};
// Time stands still where a disk is broken on purpose: the store writes only what it is asked to.
const clocks = mode === "batches" ? new TurnedClocks() : systemClocks;
const store = await openSqlite({
  path,
  onTrouble,
  clocks,
  ...(JSON.parse(options) as Partial<SqliteOptions>),
});
say("ready");
if (mode === "hold") setInterval(() => undefined, 1_000_000);
else if (mode === "load") for (let i = 0; i < Number(argument); i++) void load(`n-${i}`);
else if (mode === "random") void live(Number(argument));
else
  for await (const order of createInterface({ input: process.stdin }))
    say(JSON.stringify((await obey(order)) ?? null));

async function load(name: string): Promise<void> {
  for (;;) say(`ack ${name} ${await bump(store, name)}`);
}

async function live(seed: number): Promise<void> {
  const next = randomWrites(seed, breadth === "wide" ? wide : narrow);
  for (;;) say(`ack ${await next(store)}`);
}

/** What became of a request: its reply, or the kind of the refusal. */
function outcome(promise: Promise<unknown>): Promise<unknown> {
  return promise.catch((error: unknown) => (error instanceof StoreError ? error.kind : String(error)));
}

async function obey(order: string): Promise<unknown> {
  const [what, count] = order.split(" ");
  const flying = Array.from({ length: Number(count) }, (_, i) => `f-${i}`);
  const behind = Array.from({ length: Number(count) }, (_, i) => `g-${i}`);
  if (what === "write") return Promise.all([...flying, ...behind].map((name) => outcome(bump(store, name))));
  // Until the log is in the tree and the writer has nothing to do of its own accord.
  if (what === "idle") return until(async () => (await store.gauges()).memory_entries === 0);
  if (what === "read")
    return Promise.all([...flying, ...behind].map((name) => outcome(tokenOf(store, name))));
  // `fail`: one batch on its way to the disk, one gathering behind it, and reads of both.
  const works = new Promise<void>((resolve) => {
    recovered = resolve;
  });
  const first = flying.map((name) => outcome(bump(store, name)));
  const reads = [outcome(tokenOf(store, "f-0"))];
  await new Promise(setImmediate);
  const second = behind.map((name) => outcome(bump(store, name)));
  reads.push(outcome(tokenOf(store, "f-0")), outcome(tokenOf(store, "g-0")));
  const replies = {
    flying: await Promise.all(first),
    behind: await Promise.all(second),
    reads: await Promise.all(reads),
  };
  const broken = await outcome(bump(store, "while-broken"));
  if (typeof broken === "string") await works;
  return { ...replies, broken };
}
