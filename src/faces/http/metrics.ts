/** Prometheus metrics. Labels are routes and statuses, never a lease name or a holder. */
import { Counter, collectDefaultMetrics, Gauge, Registry } from "prom-client";
import type { Leases } from "../../service/leases.js";
import type { Nodes } from "../../service/nodes.js";
import { type RouteId, routeIds } from "../../wire/route.js";
import type { Gate } from "./gate.js";
import type { Streams } from "./stream.js";

/** Upper bounds in seconds. From a read in memory to a commit on a slow disk to a long wait. */
const bounds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 60, 600];

/** One route's figures, counted without allocation: this runs on every request. */
class RouteFigures {
  readonly counts = new Float64Array(bounds.length + 1);
  readonly statuses = new Map<number, number>();
  sum = 0;

  record(status: number, seconds: number): void {
    let bucket = 0;
    while (bucket < bounds.length && seconds > (bounds[bucket] ?? 0)) bucket++;
    this.counts[bucket] = (this.counts[bucket] ?? 0) + 1;
    this.sum += seconds;
    this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1);
  }
}

const requestsName = "holdfast_http_requests_total";
const secondsName = "holdfast_http_request_seconds";

export class Metrics {
  readonly registry = new Registry();
  readonly #routes = new Map<RouteId, RouteFigures>(routeIds.map((id) => [id, new RouteFigures()]));

  constructor(leases: Leases, nodes: Nodes, streams: Streams, gate: Gate) {
    collectDefaultMetrics({ register: this.registry, prefix: "holdfast_" });
    this.#gauges(leases, nodes, streams, gate);
  }

  #gauges(leases: Leases, nodes: Nodes, streams: Streams, gate: Gate): void {
    const registers = [this.registry];
    const gauge = (name: string, help: string, read: () => number): void => {
      new Gauge({
        name: `holdfast_${name}`,
        help,
        registers,
        collect() {
          this.set(read());
        },
      });
    };
    const counter = (name: string, help: string, read: () => number): void => {
      new Counter({
        name: `holdfast_${name}`,
        help,
        registers,
        collect() {
          this.reset();
          this.inc(read());
        },
      });
    };
    const { counters, queues, policy, upkeep } = leases;
    gauge("waiters", "Requests that wait for a name", () => queues.size);
    gauge("work_waiters", "Requests that wait for work", () => nodes.work.waiting);
    gauge("streams", "Open watch streams", () => streams.size);
    gauge("requests_in_work", "Requests being worked on, waiting ones not counted", () => gate.inWork);
    counter("overload_refusals_total", "Requests refused because the server was busy", () => gate.refused);
    gauge("loop_lag_ms", "Recent delay of the event loop", () => gate.lagMs);
    counter("grants_total", "Leases granted by this process", () => counters.granted);
    counter("refusals_total", "Acquires refused by this process", () => counters.refused);
    counter("settled_total", "Due records settled by this process", () => upkeep.settled);
    counter("releases_total", "Leases released through this process", () => counters.released);
    gauge("restore_wait_ms", "How long nothing is granted yet after a restore", () => leases.quietMs());
    counter("cleaned_total", "Records removed by clean-up", () => upkeep.cleaned);
    gauge(
      "record_retention_seconds",
      "How long a free name is remembered",
      () => policy.recordRetentionMs / 1000,
    );
    gauge(
      "request_retention_seconds",
      "How long a request id is remembered after its lease",
      () => policy.requestRetentionMs / 1000,
    );
    gauge(
      "session_retention_seconds",
      "How long an ended session is remembered",
      () => policy.sessionRetentionMs / 1000,
    );
    new Gauge({
      name: "holdfast_store",
      help: "What the store says about itself",
      labelNames: ["engine", "what"],
      registers,
      async collect() {
        for (const [what, value] of Object.entries(await leases.store.gauges()))
          this.set({ engine: leases.store.facts.engine, what }, value);
      },
    });
  }

  record(route: RouteId, status: number, seconds: number): void {
    this.#routes.get(route)?.record(status, seconds);
  }

  /** All metrics as text. */
  async text(): Promise<string> {
    return `${await this.registry.metrics()}${this.#requestLines()}`;
  }

  #requestLines(): string {
    const requests = [`# HELP ${requestsName} Requests answered`, `# TYPE ${requestsName} counter`];
    const seconds = [
      `# HELP ${secondsName} Time from a request's arrival to the end of its reply`,
      `# TYPE ${secondsName} histogram`,
    ];
    for (const [route, figures] of this.#routes) {
      if (figures.statuses.size === 0) continue;
      for (const [status, count] of figures.statuses)
        requests.push(`${requestsName}{route="${route}",status="${status}"} ${count}`);
      let total = 0;
      for (const [i, count] of figures.counts.entries()) {
        total += count;
        seconds.push(`${secondsName}_bucket{route="${route}",le="${bounds[i] ?? "+Inf"}"} ${total}`);
      }
      seconds.push(
        `${secondsName}_sum{route="${route}"} ${figures.sum}`,
        `${secondsName}_count{route="${route}"} ${total}`,
      );
    }
    return `${[...requests, ...seconds].join("\n")}\n`;
  }
}
