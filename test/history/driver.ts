// Random histories: processes that ask for leases as workers do, over a network that is slow and loses things, of a
// service that crashes, is restored from backups and has a clock of its own. With the true service every history is
// valid; with a planted bug it is whatever the bug makes of it. A seed decides everything.
import { policyDefault } from "../../src/core/limits.js";
import type { Call, History, Operation, Reply, Seen } from "../../src/verify/history.js";
import { seeded } from "../../src/verify/seed.js";
import { space } from "./answers.js";
import { Engine, type Records } from "./engine.js";
import { Queue, type Request, type Rules, rules, Service } from "./service.js";
import { Timeline } from "./timeline.js";

/** Parts of the service that differ from the true ones. */
export interface Plant {
  readonly engine?: new (clock: () => number) => Engine;
  readonly rules?: Partial<Rules>;
  readonly queue?: new () => Queue;
}

/** What a run is like. */
export interface Setting {
  readonly seed: number;
  readonly operations: number;
  readonly names: readonly string[];
  readonly processes: number;
  readonly clockBoundMs: number;
  /** How likely it is that a request or a reply is lost, or a request late. */
  readonly loss: number;
  /** How often the service crashes, per second. */
  readonly crashes: number;
  readonly restores: number;
  /** Free names are forgotten after this. */
  readonly recordRetentionMs: number;
}

export function playHistory(setting: Setting, plant: Plant = {}): History {
  return new Driver(setting, plant).play();
}

interface Holding {
  readonly name: string;
  readonly lease: string;
}

class Process {
  readonly leases: Holding[] = [];
  readonly sessions: string[] = [];
  /** The last acquire with a request id, and whether its reply was lost. */
  last: { readonly call: AcquireCall; readonly isLost: boolean } | null = null;
  requests = 0;

  constructor(
    readonly name: string,
    readonly principal: string,
  ) {}
}

type AcquireCall = Extract<Call, { op: "acquire" }>;

/** Nothing is granted after a restore for as long as any lease may live. */
const quietMs = 4000;
const patienceMs = 400;
/** The longest that a message is on its way that is neither lost nor late. */
const slowMs = 150;

class Driver {
  readonly #random: () => number;
  readonly #timeline = new Timeline();
  readonly #service: Service;
  readonly #operations: Operation[] = [];
  readonly #seen: Seen[] = [];
  readonly #quiet: { from: number; to: number }[] = [];
  readonly #past: Holding[] = [];
  #backup: Records = [];
  /** What is under way, by how it ends. */
  readonly #open = new Set<(reply: Reply) => void>();
  #downUntil = 0;
  #ids = 0;

  constructor(
    readonly setting: Setting,
    plant: Plant,
  ) {
    const { clockBoundMs, recordRetentionMs } = setting;
    this.#random = seeded(setting.seed);
    // Runs at times faster and at times slower than the recorder's, and never strays further than the bound.
    const clock = (): number => {
      const { now } = this.#timeline;
      return Math.floor(1000 + now + (clockBoundMs * (1 + Math.sin(now / 700))) / 2);
    };
    const engine = new (plant.engine ?? Engine)(clock);
    const queue = new (plant.queue ?? Queue)();
    this.#service = new Service(engine, { ...rules, ...plant.rules }, queue, this.#timeline, {
      ...policyDefault,
      recordRetentionMs,
    });
  }

  play(): History {
    const { processes, operations, clockBoundMs, loss } = this.setting;
    for (let nth = 0; nth < processes; nth++) {
      const process = new Process(`w${nth}`, `p${nth % Math.max(2, Math.ceil(processes / 2))}`);
      this.#timeline.after(this.#between(0, 100), () => this.#act(process));
    }
    for (const stream of ["s0", "s1"]) this.#follow(stream);
    this.#every(25, () => this.#service.settle());
    this.#every(500, () => this.#service.clean());
    this.#every(1000, () => this.#weather());
    this.#timeline.run(() => this.#operations.length >= operations);
    for (const end of [...this.#open]) end({ kind: "unknown", why: "the run was over" });
    const history = { operations: this.#operations, seen: this.#seen, clockBoundMs, quiet: this.#quiet };
    // Where requests may be late by seconds, nobody is accused of being slow.
    return loss > 0 ? history : { ...history, timely: { transitMs: 2 * slowMs, keptMs: 3000 } };
  }

  #between(from: number, to: number): number {
    return from + this.#random() * (to - from);
  }

  #whole(from: number, to: number): number {
    return Math.round(this.#between(from, to));
  }

  #odds(share: number): boolean {
    return this.#random() < share;
  }

  #pick<Item>(items: readonly Item[]): Item | undefined {
    return items[Math.floor(this.#random() * items.length)];
  }

  #every(ms: number, run: () => void): void {
    this.#timeline.after(ms, () => {
      run();
      this.#every(ms, run);
    });
  }

  #weather(): void {
    const { crashes, restores } = this.setting;
    const { now } = this.#timeline;
    const { engine } = this.#service;
    if (this.#odds(0.3)) this.#backup = engine.backup();
    if (this.#odds(crashes)) {
      this.#service.crash();
      this.#downUntil = now + this.#between(0, 400);
    }
    if (!this.#odds(restores)) return;
    this.#service.crash();
    const quietFor = engine.restore(this.#backup, quietMs) - engine.clock();
    this.#quiet.push({ from: now, to: now + quietFor + this.setting.clockBoundMs + 1 });
  }

  /** One thing after the other: asks, and goes on when the reply has come or was given up. */
  #act(process: Process): void {
    const call = this.#choose(process);
    const began = this.#timeline.now;
    const end = (reply: Reply): void => {
      if (!this.#open.delete(end)) return;
      const isUnknown = reply.kind === "unknown";
      const ended = isUnknown ? Number.POSITIVE_INFINITY : this.#timeline.now;
      this.#operations.push({
        process: process.name,
        principal: process.principal,
        call,
        began,
        ended,
        reply,
      });
      this.#learn(process, call, reply);
      this.#timeline.after(this.#odds(0.2) ? this.#between(300, 1500) : this.#between(0, 120), () =>
        this.#act(process),
      );
    };
    this.#open.add(end);
    const waitMs = call.op === "acquire" ? call.waitMs : 0;
    this.#send(process.principal, call, end);
    this.#timeline.after(patienceMs + waitMs, () => end({ kind: "unknown", why: "no reply" }));
  }

  #send(principal: string, call: Call, hear: (reply: Reply) => void): void {
    const { loss } = this.setting;
    const waits = call.op === "acquire" && call.waitMs > 0;
    const id = `${call.op === "open" ? "s" : "l"}${++this.#ids}`;
    const request: Request = {
      principal,
      call,
      id,
      reply: (reply) => {
        if (!this.#odds(loss)) this.#timeline.after(this.#delayMs(), () => hear(reply));
        else if (waits && this.#odds(0.7))
          this.#timeline.after(this.#between(0, 900), () => this.#service.gone(request));
      },
    };
    const arrive = (): void => {
      if (this.#timeline.now >= this.#downUntil) this.#service.answer(request);
      else this.#timeline.after(this.#delayMs(), () => hear({ kind: "refused", code: "unreachable" }));
    };
    if (this.#odds(loss)) {
      if (this.#odds(0.5)) this.#timeline.after(this.#between(0, 3000), arrive);
    } else this.#timeline.after(this.#delayMs(), arrive);
  }

  #delayMs(): number {
    return this.#odds(0.1) ? this.#between(0, slowMs) : this.#between(0, 8);
  }

  #learn(process: Process, call: Call, reply: Reply): void {
    if (call.op === "acquire" && call.requestId !== null)
      process.last = { call, isLost: reply.kind === "unknown" };
    if (call.op === "acquire" && reply.kind === "granted") {
      process.leases.push({ name: call.name, lease: reply.lease });
      this.#past.push({ name: call.name, lease: reply.lease });
    }
    if (reply.kind === "opened") process.sessions.push(reply.session);
    const isLost = reply.kind === "done" || reply.kind === "lost";
    if ((call.op === "release" || call.op === "renew") && isLost && this.#odds(0.9)) {
      const place = process.leases.findIndex(({ lease }) => lease === call.lease);
      if (place >= 0) process.leases.splice(place, 1);
    }
    if (
      (call.op === "end" || reply.kind === "gone") &&
      "session" in call &&
      call.session !== null &&
      this.#odds(0.9)
    ) {
      const place = process.sessions.indexOf(call.session);
      if (place >= 0) process.sessions.splice(place, 1);
    }
  }

  #choose(process: Process): Call {
    const { last } = process;
    if (last?.isLost && this.#odds(0.6))
      return { ...last.call, waitMs: this.#odds(0.5) ? 0 : last.call.waitMs };
    const name = this.#pick(this.setting.names) ?? "";
    const mine = this.#pick(process.leases);
    if (mine !== undefined && this.#odds(0.25))
      return { op: "renew", ...mine, ttlMs: this.#odds(0.3) ? this.#whole(200, 3000) : null };
    if (mine !== undefined && this.#odds(0.35)) return { op: "release", ...mine };
    const roll = this.#random();
    if (roll < 0.12) return { op: "read", name };
    if (roll < 0.14) return { op: "force", name };
    if (roll < 0.22) return this.#nonsense(process, name);
    if (roll < 0.34) return this.#session(process);
    return this.#acquire(process, name);
  }

  #acquire(process: Process, name: string): Call {
    const session = this.#odds(0.3) ? (this.#pick(process.sessions) ?? null) : null;
    const proof = this.#odds(0.08) ? this.#pick(process.leases) : undefined;
    const call: AcquireCall = {
      op: "acquire",
      name: proof?.name ?? name,
      ttlMs: session !== null && this.#odds(0.6) ? null : this.#whole(300, 3000),
      waitMs: this.#odds(0.35) ? this.#whole(300, 4000) : 0,
      requestId: this.#odds(0.5) ? `${process.name}-${++process.requests}` : null,
      session,
      lease: proof?.lease ?? null,
      delayMs: this.#odds(0.2) ? this.#whole(100, 1500) : 0,
      label: `${process.name} on ${proof?.name ?? name} at ${Math.round(this.#timeline.now)}`,
    };
    return call;
  }

  #session(process: Process): Call {
    const session = this.#pick(process.sessions);
    if (session === undefined || this.#odds(0.2)) return { op: "open", ttlMs: this.#whole(500, 6000) };
    return this.#odds(0.65) ? { op: "keepalive", session } : { op: "end", session };
  }

  /** Acts on what is over, on what belongs to another, or under a request id that was used. */
  #nonsense(process: Process, name: string): Call {
    const { last } = process;
    if (last !== null && this.#odds(0.4))
      return { ...last.call, waitMs: 0, lease: this.#odds(0.5) ? null : last.call.lease };
    if (last !== null && this.#odds(0.4))
      return { ...last.call, waitMs: 0, ttlMs: (last.call.ttlMs ?? 0) + 1000 };
    const past = this.#pick(this.#past.slice(-30)) ?? { name, lease: "l-none" };
    return this.#odds(0.5) ? { op: "release", ...past } : { op: "renew", ...past, ttlMs: null };
  }

  /** A stream of events, read now and then, and at times told to begin anew. */
  #follow(stream: string): void {
    const { engine } = this.#service;
    let heard = -1;
    let feed = engine.feed;
    const saw = (event: Seen["event"], id: string | null, name: string, token: number): void => {
      this.#seen.push({ stream, at: this.#timeline.now, event, id, name, token });
    };
    const open = (id: string | null): void => saw("opened", id, "", 0);
    const begin = (): void => {
      feed = engine.feed;
      heard = feed.length;
      for (const [, record] of engine.backup())
        if (record.kind === "lock" && record.space === space && record.lease !== null)
          saw("snapshot", null, record.name, record.token);
      saw("synced", `${heard}`, "", 0);
    };
    const look = (): void => {
      if (heard < 0) {
        open(null);
        begin();
      } else if (this.#odds(0.1)) {
        saw("closed", null, "", 0);
        open(`${heard}`);
      }
      // Where time counts, a place is known but to a service that was brought back from a backup.
      if (feed !== engine.feed || (this.setting.loss > 0 && this.#odds(0.01))) {
        saw("reset", null, "", 0);
        begin();
      }
      for (; heard < feed.length; heard++) {
        const told = feed[heard];
        if (told !== undefined) saw(told.event.type, told.id, told.event.name, told.event.token);
      }
      this.#timeline.after(this.#between(5, 400), look);
    };
    this.#timeline.after(this.#between(0, 3000), look);
  }
}

/** A setting for each seed: few names or many, with and without what makes histories hard. */
export function settingOf(seed: number): Setting {
  const random = seeded(seed ^ 0x5eed);
  const pick = <Item>(items: readonly [Item, ...Item[]]): Item =>
    items[Math.floor(random() * items.length)] ?? items[0];
  const plain = ["deploy", "issue:1", "issue:2", "db", "cache"].slice(0, 1 + Math.floor(random() * 4));
  const nested = [
    "path:src",
    "path:src/auth",
    "path:src/auth/login.ts",
    "path:docs",
    "repo:global",
    "repo:deploy",
  ];
  return {
    seed,
    operations: pick([60, 150, 300]),
    names: pick([plain, plain, plain, nested, nested.slice(0, 3), [...plain, "path:src", "path:src/auth"]]),
    processes: pick([2, 5, 9]),
    clockBoundMs: pick([0, 0, 5, 40]),
    loss: pick([0, 0.02, 0.1]),
    crashes: pick([0, 0, 0.1]),
    restores: pick([0, 0, 0, 0, 0, 0.05]),
    recordRetentionMs: pick([policyDefault.recordRetentionMs, 2000]),
  };
}
