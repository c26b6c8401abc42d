/** Prometheus metrics. Labels are routes and statuses, never a lease name or a holder. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import type { Leases } from "../../service/leases.js";
import { type RouteId, routeIds } from "../../wire/route.js";
import type { Gate } from "./gate.js";
import type { Streams } from "./stream.js";

/** Seconds. From a read in memory to a commit on a slow disk to a long wait. */
const buckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 60, 600];

export class Metrics {
  readonly registry = new Registry();
  readonly #seconds: Readonly<Record<RouteId, { observe: (seconds: number) => void }>>;
  readonly #requests: Counter<"route" | "status">;
  readonly #children = new Map<string, { inc: () => void }>();

  constructor(leases: Leases, streams: Streams, gate: Gate) {
    const registers = [this.registry];
    collectDefaultMetrics({ register: this.registry, prefix: "holdfast_" });
    const histogram = new Histogram({
      name: "holdfast_http_request_seconds",
      help: "Time from the request's arrival to the end of its reply",
      labelNames: ["route"],
      buckets,
      registers,
    });
    this.#seconds = Object.fromEntries(routeIds.map((id) => [id, histogram.labels(id)])) as unknown as Record<
      RouteId,
      { observe: (seconds: number) => void }
    >;
    this.#requests = new Counter({
      name: "holdfast_http_requests_total",
      help: "Requests answered",
      labelNames: ["route", "status"],
      registers,
    });
    this.#gauges(leases, streams, gate);
  }

  #gauges(leases: Leases, streams: Streams, gate: Gate): void {
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
    const { counters, queues, policy } = leases;
    gauge("waiters", "Requests that wait for a name", () => queues.size);
    gauge("streams", "Open watch streams", () => streams.size);
    gauge("requests_in_work", "Requests being worked on, waiting ones not counted", () => gate.inWork);
    gauge("overload_refusals_total", "Requests refused because the server was busy", () => gate.refused);
    gauge("loop_lag_ms", "Recent delay of the event loop", () => gate.lagMs);
    gauge("grants_total", "Leases granted by this process", () => counters.granted);
    gauge("refusals_total", "Acquires refused by this process", () => counters.refused);
    gauge("settled_total", "Due records settled by this process", () => counters.expired);
    gauge("releases_total", "Leases released through this process", () => counters.released);
    gauge("cleaned_total", "Records removed by clean-up", () => counters.cleaned);
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
    const name = `${route} ${status}`;
    let child = this.#children.get(name);
    if (child === undefined) {
      child = this.#requests.labels(route, String(status));
      this.#children.set(name, child);
    }
    child.inc();
    this.#seconds[route].observe(seconds);
  }
}
