/**
 * What must happen without anybody asking: settling leases that are over, cleaning up what nobody needs any more,
 * and serving queues whose names were freed by somebody else's step.
 */
import type { Decision, View } from "../core/decision.js";
import type { Successors } from "../core/heirs.js";
import { decideServe } from "../core/inspect.js";
import { everySpace, floorKey, lockKey, sortableInstant } from "../core/keys.js";
import type { Policy } from "../core/limits.js";
import { hasOverlap } from "../core/names.js";
import type { NodeEvent } from "../core/nodes/records.js";
import type { FeedEvent, LineEvent } from "../core/records.js";
import { decideClean, decideSweep } from "../core/sweep.js";
import type { Timer } from "../store/clock.js";
import { Attempts, type Report } from "../store/report.js";
import type { Store } from "../store/store.js";
import { Alarm } from "./alarm.js";
import type { Lines } from "./lines.js";
import type { Queues } from "./queues.js";
import { heirsOf, type Steps } from "./steps.js";
import { Wanted } from "./wanted.js";

/** Pause before the feed is followed again after a failure. */
const retryMs = 250;
const instantWidth = sortableInstant(0).length;

export class Upkeep {
  settled = 0;
  cleaned = 0;
  readonly #sweep: Alarm;
  readonly #clean: Alarm;
  readonly #quiet: Alarm;
  /** Instants until which somebody waits, few: one for each space. */
  readonly #quietAt = new Set<number>();
  readonly #following: Attempts;
  readonly #wanted: Wanted;
  /** Up to here nothing is in the index: an engine would have to step over all that was removed lately. */
  readonly #from = { due: "", gc: "" };

  constructor(
    readonly store: Store,
    readonly steps: Steps,
    readonly queues: Queues,
    readonly lines: Lines,
    readonly policy: Policy,
    readonly stopping: AbortSignal,
    report: Report,
    readonly after: Timer,
    /** A node can be taken from now on; null: any of them may be. */
    readonly ready: (event: NodeEvent | null) => void,
  ) {
    const alarm = (run: () => Promise<number | null>, what: string): Alarm => {
      const attempts = new Attempts(what, report);
      return new Alarm(
        () => store.now(),
        async () => {
          const next = await run();
          attempts.worked();
          return next;
        },
        (error) => {
          // What was taken for removed may be there again.
          this.#from.due = this.#from.gc = "";
          attempts.failed(error);
        },
        after,
        store.facts.clockLagMs,
      );
    };
    this.#following = new Attempts("following the change feed", report);
    this.#wanted = new Wanted(({ space, name }) => this.serve(space, name), stopping, report, after);
    this.#sweep = alarm(() => this.#runSweep(), "settling what is over");
    this.#clean = alarm(() => this.#runClean(), "cleaning up");
    this.#quiet = alarm(() => this.#runQuiet(), "serving who waited out a restore");
    stopping.addEventListener("abort", () => {
      this.#sweep.close();
      this.#clean.close();
      this.#quiet.close();
    });
  }

  /** Begins with what is in the store already. */
  start(): void {
    this.#sweep.set(0);
    this.#clean.set(0);
    void this.#followFrees();
  }

  /** Something becomes due, or can be cleaned up, at this instant. */
  notice(index: "due" | "gc", at: number): void {
    const place = sortableInstant(at);
    if (place < this.#from[index]) this.#from[index] = place;
    (index === "due" ? this.#sweep : this.#clean).set(at);
  }

  /** Somebody waits until nothing is held back any more after a restore: no record becomes due then. */
  quietUntil(at: number): void {
    this.#quietAt.add(at);
    this.#quiet.set(at);
  }

  /** Settles everything that is over now. */
  async settleDue(): Promise<void> {
    const sweep = (view: View, heirs: Successors) =>
      this.#passing("due", decideSweep(view, this.policy, heirs, this.#from.due));
    try {
      for (let more = true; more; ) {
        const reply = await this.steps.run([], sweep, heirsOf);
        this.settled += reply.settled;
        more = reply.more;
      }
    } catch (error) {
      this.#from.due = "";
      throw error;
    }
  }

  async #runSweep(): Promise<number | null> {
    await this.settleDue();
    return this.#firstInstant("due");
  }

  /** Each space has its own instant: the alarm knows the first of them. */
  async #runQuiet(): Promise<number | null> {
    this.#serveAll();
    // Where several servers share a clock, it is surely past only so much later.
    const past = this.store.now() - this.store.facts.clockLagMs;
    for (const at of this.#quietAt) if (at < past) this.#quietAt.delete(at);
    return this.#quietAt.size === 0 ? null : Math.min(...this.#quietAt);
  }

  async #runClean(): Promise<number | null> {
    for (let more = true; more && !this.stopping.aborted; ) {
      const reply = await this.store.transact([], (view) =>
        this.#passing("gc", decideClean(view, this.policy, this.#from.gc)),
      );
      this.cleaned += reply.removed;
      more = reply.more;
    }
    return this.#firstInstant("gc");
  }

  /**
   * Takes note of how far a decision has looked, at the moment it is made: what is put there later is noticed. Where
   * other nodes put things too, nothing can be taken for removed.
   */
  #passing<Reply extends { readonly next: string }>(
    index: "due" | "gc",
    decision: Decision<Reply>,
  ): Decision<Reply> {
    if (!("need" in decision) && this.store.facts.order === "node") this.#from[index] = decision.reply.next;
    return decision;
  }

  async #firstInstant(index: "due" | "gc"): Promise<number | null> {
    const [row] = await this.store.list({ index, from: this.#from[index], to: "\x7f", limit: 1 });
    return row === undefined ? null : Number(row.sort.slice(0, instantWidth));
  }

  /** Names that overlap others, and on a cluster every name, may be freed by steps that know nothing of our queues. */
  async #followFrees(again = false): Promise<void> {
    try {
      const changes = this.store.changes(undefined, this.stopping);
      // What was freed while nobody followed.
      if (again) {
        this.ready(null);
        this.#serveAll();
        this.#following.worked();
      }
      for await (const change of changes) {
        if ("reset" in change) this.ready(null);
        else if (change.event.type === "ready") this.ready(change.event);
        if ("event" in change && change.event.type === "line") this.#serveTurn(change.event);
        if (this.queues.size === 0 && !this.lines.hasTurns) continue;
        if ("reset" in change) this.#serveAll();
        else this.#serveFreed(change.event);
      }
    } catch (error) {
      if (this.stopping.aborted) return;
      this.#following.failed(error);
      this.after(retryMs, () => void this.#followFrees(true));
    }
  }

  #serveFreed(event: FeedEvent): void {
    if (event.type === "released" || event.type === "expired") this.#serveAfter(event.space, event.name);
  }

  /** It may be the turn of one who left, which only its server can give up: so everybody looks. */
  #serveTurn({ space, name }: LineEvent): void {
    if (space === null || name === null) this.#serveAll();
    else this.#wanted.add({ space, name });
  }

  #serveAfter(space: string, freed: string): void {
    const overlaps = hasOverlap(freed);
    const mayWait = this.queues.hasPlaces(space, freed) || this.lines.mayHaveTurn(space, freed);
    if ((overlaps || this.store.facts.order === "cluster") && mayWait)
      this.#wanted.add({ space, name: freed });
    if (!overlaps) return;
    for (const name of this.queues.overlapping(space, freed)) this.#wanted.add({ space, name });
  }

  #serveAll(): void {
    for (const { claim } of this.queues.all()) this.#wanted.add(claim);
    for (const name of this.lines.names()) this.#wanted.add(name);
  }

  /** Offers the name to its waiters, if it is free. */
  async serve(space: string, name: string, isAudit = false): Promise<void> {
    await this.steps.run(
      [lockKey(space, name), floorKey(space), floorKey(everySpace)],
      (view, heirs) => decideServe(view, space, name, this.policy, heirs, isAudit),
      (heirs) => heirs,
    );
    this.lines.counted(space, name);
  }
}
