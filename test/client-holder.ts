// A process that works under a lease, as a worker would, and says what it finds. What it does is its argument, as
// JSON; the process that started it hears of it, stops it and lets it go on.
import { createClient, type Lease } from "../src/client/entry.js";
import type { Said } from "./client-lab.js";

interface Task {
  readonly does: "block" | "tick" | "spin" | "count";
  readonly url: string;
  readonly token: string;
  readonly name: string;
  readonly ttl: number;
  readonly renewIn: "event-loop" | "worker";
  /** Of `block`: how long. */
  readonly blockMs: number;
  /** Of `count`: looks at the lease before it writes. */
  readonly isCareful: boolean;
}

const task = JSON.parse(process.argv[2] ?? "{}") as Task;
const { does, url, token, name, ttl, renewIn, blockMs, isCareful } = task;
const client = createClient({ url, token });
const cell = new Int32Array(new SharedArrayBuffer(4));

/** No turn of the event loop happens meanwhile. */
const block = (ms: number): unknown => Atomics.wait(cell, 0, 0, ms);

const say = (said: Said): boolean | undefined => process.send?.(said);

/** What the line after a stall finds. */
function look(lease: Lease): Extract<Said, { said: "woke" }> {
  const { aborted } = lease.signal;
  try {
    lease.assertHeld();
    return { said: "woke", aborted, threw: null };
  } catch (error) {
    return { said: "woke", aborted, threw: String(error) };
  }
}

/** Blocks its event loop once, by sleeping and by being busy. */
async function blocked(): Promise<void> {
  const lease = await client.hold(name, { ttl, renewIn });
  say({ said: "held", token: lease.token });
  // What was said must have left before nothing can.
  await new Promise((resolve) => setTimeout(resolve, 100));
  block(blockMs / 2);
  for (const until = performance.now() + blockMs / 2; performance.now() < until; );
  const found = look(lease);
  say(found);
  await lease.release();
}

/** Looks again and again; says what the first look after a stall found, and ends. */
async function stalled(isWaiting: boolean): Promise<void> {
  const lease = await client.hold(name, { ttl, renewIn });
  say({ said: "held", token: lease.token });
  await new Promise((resolve) => setTimeout(resolve, 100));
  for (let lastAt = performance.now(); ; ) {
    if (isWaiting) await new Promise((resolve) => setTimeout(resolve, 5));
    else block(5);
    if (performance.now() - lastAt > ttl * 1000) break;
    lastAt = performance.now();
  }
  say(look(lease));
  await lease.release();
}

/** Adds to a counter that the other process keeps: reads, adds one, writes, each time under the lease. */
async function count(): Promise<void> {
  for (;;) {
    const lease = await client.hold(name, { ttl, wait: "5m" });
    const value = await asked({ said: "read", token: lease.token });
    if (isCareful && !lease.held) say({ said: "stopped-itself" });
    else if (value !== null) await asked({ said: "write", token: lease.token, value: value + 1 });
    await lease.release();
  }
}

/** The counter's answer: its value, or null where it refuses. */
async function asked(said: Said): Promise<number | null> {
  const answer = new Promise<{ value: number | null }>((resolve) => process.once("message", resolve));
  say(said);
  return (await answer).value;
}

if (does === "block") await blocked();
else if (does === "count") await count();
else await stalled(does === "tick");
if (process.connected) process.disconnect();
