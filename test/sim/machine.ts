// The machine that the server runs on: its clocks, its disk, and one server process at a time, which can be killed,
// stopped, started again and made to stand still. The server is the real service over the memory engine.
import { policyDefault } from "../../src/core/limits.js";
import { Leases } from "../../src/service/leases.js";
import { type Watched, type WatchQuery, watch } from "../../src/service/watch.js";
import type { Clocks, Timer } from "../../src/store/clock.js";
import type { Store } from "../../src/store/store.js";
import type { Reply } from "../../src/verify/history.js";
import type { Chance } from "./chance.js";
import { CrashingStore, Disk, type DiskWeather } from "./disk.js";
import { answer, type Request } from "./face.js";
import type { Scheduler } from "./scheduler.js";
import type { Tally } from "./situations.js";
import { type Cause, Witness } from "./witness.js";

/** The far end of a connection, as the server sees it. */
export interface Peer {
  /** Nobody listens at this address, or the server ended before it answered. */
  readonly cut: (why: "refused" | "reset") => void;
}

export interface Asker extends Peer {
  readonly request: Request;
  readonly reply: (reply: Reply) => void;
}

export interface Viewer extends Peer {
  readonly query: WatchQuery;
  readonly frame: (watched: Watched) => void;
  /** Aborted when the viewer left. */
  readonly left: AbortSignal;
}

/** How this server differs from the true one: where a bug is planted. */
export interface Plant {
  readonly store?: (store: Store) => Store;
  readonly leases?: (leases: Leases) => Leases;
  /** The server's clock runs so many times as fast. */
  readonly clockRate?: number;
}

export interface MachineSettings {
  readonly ticketMs: number;
  readonly recordRetentionMs: number;
  readonly feedEventsMax: number;
  readonly plant: Plant;
}

interface Process {
  readonly store: CrashingStore;
  readonly leases: Leases;
  readonly peers: Set<Peer>;
  stopping: boolean;
}

/** Quartz is off by up to so much, as a share. */
const driftMax = 0.0001;
/** How long callers are told that the server stops before it is gone. */
const drainMs = 50;

export class Machine {
  readonly disk: Disk;
  readonly witness: Witness;
  /** What a server must never fail with. */
  readonly errors: Error[] = [];
  /** Since when a process runs without a stall and with its disk, or will. */
  #wellSince = 0;
  #process: Process | null = null;
  #frozenUntil = 0;
  #wallOffsetMs: number;
  #cause: Cause | null = null;
  readonly #rate: number;

  constructor(
    readonly scheduler: Scheduler,
    readonly weather: DiskWeather,
    readonly settings: MachineSettings,
    tally: Tally,
    chance: Chance,
  ) {
    this.witness = new Witness(tally);
    this.disk = new Disk(this.witness, settings.feedEventsMax);
    this.#rate = (settings.plant.clockRate ?? 1) * (1 + driftMax * (2 * chance.random() - 1));
    this.#wallOffsetMs = 1_700_000_000_000 + chance.below(1_000_000_000);
  }

  readonly #clocks: Clocks = {
    monotonic: () => this.scheduler.now() * this.#rate + 12_345,
    wall: () => this.scheduler.now() + this.#wallOffsetMs,
  };

  get process(): { readonly leases: Leases; readonly store: CrashingStore } | null {
    return this.#process;
  }

  get isFrozen(): boolean {
    return this.scheduler.now() < this.#frozenUntil;
  }

  /** How long the server has been able to do what it should; 0: it is not. */
  wellForMs(): number {
    if (this.#process === null || this.#process.stopping || !this.#process.store.isOpen) return 0;
    return Math.max(0, this.scheduler.now() - this.#wellSince);
  }

  /** Until then, or still then, the server cannot be expected to do what it should. */
  unwell(until = this.scheduler.now()): void {
    this.#wellSince = Math.max(this.#wellSince, until);
  }

  start(): void {
    if (this.#process !== null) return;
    const { plant, ticketMs, recordRetentionMs } = this.settings;
    const isThis = (): boolean => this.#process === process;
    const later: Timer = (ms, run) => {
      let wanted = true;
      this.scheduler.after(ms, () => this.#enter(() => wanted && isThis(), run));
      return () => {
        wanted = false;
      };
    };
    const store = new CrashingStore(
      this.disk,
      {
        clocks: this.#clocks,
        later,
        now: this.scheduler.now,
        cause: () => this.#cause,
        unwell: () => this.unwell(),
      },
      this.weather,
    );
    // Node counts timers in whole milliseconds, from one up.
    const timer: Timer = (ms, run) => later(Math.max(1, Math.trunc(ms)), run);
    const made = new Leases(
      plant.store?.(store) ?? store,
      { ...policyDefault, recordRetentionMs, sessionRetentionMs: recordRetentionMs },
      { waitersMax: 100, waitersPerNameMax: 50, waitersPerPrincipalMax: 50, ticketMs },
      () => undefined,
      timer,
    );
    const leases = plant.leases?.(made) ?? made;
    const process: Process = { store, leases, peers: new Set(), stopping: false };
    this.#process = process;
    this.unwell();
    void leases.start();
  }

  /** Runs something in a process: when it is awake, and only if it still lives. */
  #enter(isAlive: () => boolean, run: () => void): void {
    if (!isAlive()) return;
    if (this.isFrozen) this.scheduler.at(this.#frozenUntil, () => this.#enter(isAlive, run));
    else run();
  }

  /** Ends the process at once. */
  kill(): void {
    const process = this.#process;
    if (process === null) return;
    process.store.crash();
    this.#end(process);
  }

  /** Asks the process to end: waiters are told, what is on its way is finished. */
  async stop(): Promise<void> {
    const process = this.#process;
    if (process === null || this.isFrozen) return;
    process.stopping = true;
    process.leases.close();
    await this.scheduler.sleep(drainMs);
    await process.store.close();
    if (this.#process === process) this.#end(process);
  }

  #end(process: Process): void {
    this.witness.ended(process.leases.queues.size);
    this.#process = null;
    this.#frozenUntil = 0;
    for (const peer of process.peers) peer.cut("reset");
  }

  /** The process does nothing for a while; clocks go on. */
  freeze(ms: number): void {
    if (this.#process === null) return;
    this.#frozenUntil = this.scheduler.now() + ms;
    this.unwell(this.#frozenUntil);
    this.witness.stalled(this.disk, this.#process.store.now(), ms);
  }

  stepWall(ms: number): void {
    this.#wallOffsetMs += ms;
  }

  /** A request arrives. */
  ask(asker: Asker): void {
    const process = this.#arrive(asker, () => this.ask(asker));
    if (process === null) return;
    if (process.stopping) {
      asker.reply({ kind: "refused", code: "unavailable" });
      return;
    }
    process.peers.add(asker);
    const { request } = asker;
    this.#cause = { op: request.call.op, newId: request.newId };
    const answered = answer(process.leases, request);
    this.#cause = null;
    answered.then(
      (reply) => {
        if (process.peers.delete(asker) && this.#process === process) asker.reply(reply);
      },
      (error: Error) => this.errors.push(error),
    );
  }

  /** A viewer arrives and stays. */
  view(viewer: Viewer): void {
    const process = this.#arrive(viewer, () => this.view(viewer));
    if (process === null) return;
    process.peers.add(viewer);
    const gone = (): void => {
      if (process.peers.delete(viewer)) viewer.cut("reset");
    };
    const pump = async (): Promise<void> => {
      for await (const watched of watch(process.leases, viewer.query, viewer.left)) {
        if (viewer.left.aborted || this.#process !== process) return;
        viewer.frame(watched);
      }
    };
    pump().then(gone, gone);
  }

  /** The process that takes the call, once it is awake; null where there is none now. */
  #arrive(peer: Peer, again: () => void): Process | null {
    const process = this.#process;
    if (process === null) peer.cut("refused");
    else if (this.isFrozen) this.scheduler.at(this.#frozenUntil, again);
    else return process;
    return null;
  }

  /** Something that the server notices only when it is awake. */
  notice(run: () => void): void {
    const process = this.#process;
    if (process !== null) this.#enter(() => this.#process === process, run);
  }
}
