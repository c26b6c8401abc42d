// The closed loop: opens the connections, keeps one request outstanding on each until the time or the work is
// over, waits for the last replies and counts. The clock starts when all connections are open.

import { Connection } from "./connection.js";
import { Histogram } from "./histogram.js";
import type { Order, Tally } from "./orders.js";
import type { Workload } from "./workload.js";

/** Fewer than the usual listen backlog of 511, so that no SYN is dropped and retried a second later. */
const OPENING_MAX = 200;
const PROBLEMS_MAX = 5;

/** 201: something was created. */
const isDone = (status: number): boolean => status === 200 || status === 201;

export async function drive(order: Order, work: Workload): Promise<Tally> {
  const statuses = new Map<number, number>();
  const outcomes = new Map<string, number>();
  const problems: string[] = [];
  const latencies = new Histogram();
  const sentAt = new Float64Array(order.connections);
  const connections: Connection[] = [];
  let deadline = Number.POSITIVE_INFINITY;
  let busy = order.connections;
  let replies = 0;
  let lastAt = 0;
  let finish: () => void = () => undefined;
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });

  const note = (problem: string) => {
    if (problems.length < PROBLEMS_MAX) problems.push(problem);
  };
  const idle = () => {
    busy -= 1;
    if (busy === 0) finish();
  };
  const advance = (slot: number, now: number) => {
    const request = work.next(slot, now >= deadline);
    if (request === undefined) return idle();
    sentAt[slot] = now;
    connections[slot]?.send(request);
  };
  const receive = (slot: number, status: number, body: string) => {
    const now = performance.now();
    latencies.record(now - (sentAt[slot] ?? now));
    replies += 1;
    lastAt = now;
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
    const outcome = work.settle(slot, status, body);
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    if (!isDone(status) || outcome === "other") note(`${status}: ${body.slice(0, 300)}`);
    advance(slot, now);
  };
  const lose = (slot: number, reason: string) => {
    note(`connection ${slot}: ${reason}`);
    idle();
  };

  for (let from = 0; from < order.connections; from += OPENING_MAX) {
    const slots = Array.from({ length: Math.min(OPENING_MAX, order.connections - from) }, (_, i) => from + i);
    const opened = await Promise.all(
      slots.map((slot) =>
        Connection.open(order.port, {
          onReply: (status, body) => receive(slot, status, body),
          onClose: (reason) => lose(slot, reason),
        }),
      ),
    );
    connections.push(...opened);
  }

  const startedAt = performance.now();
  const cpuBefore = process.cpuUsage();
  lastAt = startedAt;
  if (order.seconds !== undefined) deadline = startedAt + order.seconds * 1000;
  const limit = setTimeout(() => {
    note(`${busy} connections without a reply after ${order.limitSeconds} s`);
    finish();
  }, order.limitSeconds * 1000);
  for (let slot = 0; slot < order.connections; slot += 1) advance(slot, performance.now());
  await finished;
  clearTimeout(limit);
  const cpu = process.cpuUsage(cpuBefore);
  for (const connection of connections) connection.close();

  return {
    replies,
    elapsedMs: lastAt - startedAt,
    endedAt: performance.timeOrigin + lastAt,
    cpuMs: (cpu.user + cpu.system) / 1000,
    p50Ms: latencies.percentile(0.5),
    p99Ms: latencies.percentile(0.99),
    maxMs: latencies.maxMs,
    statuses: Object.fromEntries(statuses),
    outcomes: Object.fromEntries(outcomes),
    problems,
  };
}
