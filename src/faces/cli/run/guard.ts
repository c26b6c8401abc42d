/**
 * Ends the work before the lease can pass to another: asks it to stop while there is still time, and kills it while the
 * lease is still trusted. Runs in two processes at once, `holdfast run` and its keeper, so that one of them being stopped
 * or killed changes nothing. Once the work was asked to stop its end is certain, also if a renewal succeeds after all.
 */
import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import type { LeaseState } from "../../../client/lease-state.js";
import type { Command, Victims } from "./victims.js";

/** How long the command has between SIGTERM and SIGKILL, where the TTL allows it. */
const graceMaxMs = 5000;
/** How much of that is left when the other process asks, if the first has not. */
const secondShare = 0.75;
/** Everything is killed this long before the end of trust: what a busy machine may need to do it. */
const killAheadMs = 100;
/** Between two looks whether any is left. */
const lookMs = 20;
/** Turns of the event loop in which messages that came during a stall are read, before a clock is believed. */
const turnsAfterStall = 16;
const timerMaxMs = 2 ** 31 - 1;

/** Resolves once what the other process has said so far was heard. */
export async function newsHeard(): Promise<void> {
  for (let turn = 0; turn < turnsAfterStall; turn++) await setImmediate();
}

export interface GuardOptions {
  readonly state: LeaseState;
  readonly victims: Victims;
  /** False: nothing is ever signalled, only told. */
  readonly kills: boolean;
  /** The keeper asks first, so that the command is not asked twice, and goes on killing for as long as it takes. */
  readonly isKeeper: boolean;
  /** Why it could not be renewed, as far as is known. */
  readonly why: () => string;
  /** Told once when the work is asked to stop. */
  readonly asked: (why: string) => void;
  /** Told once when the lease is not trusted any more, or the work's time is up. */
  readonly lost: (why: string) => void;
}

export class Guard {
  readonly #options: GuardOptions;
  readonly #graceMs: number;
  #timer: NodeJS.Timeout | undefined;
  #asked: string | null = null;
  /** By the monotonic clock: when the work that was asked to stop is killed. */
  #killAt = Number.POSITIVE_INFINITY;
  #isOver = false;
  #isKilling = false;

  constructor(options: GuardOptions) {
    this.#options = options;
    this.#graceMs = Math.min(graceMaxMs, options.state.leftMs() / 4);
    this.#look();
  }

  /** The command runs. */
  guards(command: Command): void {
    this.#options.victims.command = command;
    if (this.#isKilling) this.#options.victims.signal("SIGKILL");
  }

  /** The other process asked the work to stop. */
  wasAsked(why: string): void {
    if (this.#isOver || this.#asked !== null) return;
    this.#asked = why;
    this.#killAt = performance.now() + this.#leftMs();
    this.#options.asked(why);
    this.#look();
  }

  /** Ends the work though the lease is still held. */
  finish(why: string): void {
    if (this.#isOver || this.#asked !== null) return;
    this.#asked = why;
    this.#killAt = performance.now() + Math.min(this.#graceMs, this.#leftMs());
    this.#options.asked(why);
    if (this.#options.kills) this.#options.victims.signal("SIGTERM");
    this.#look();
  }

  /** Not ours any more, or soon not: nothing may go on. */
  lose(why: string): void {
    if (this.#isOver) return;
    this.#options.state.end();
    this.#kill(why);
  }

  /** The command has ended. */
  stop(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
  }

  /** Resolves once none is alive any more, or the time is over. */
  async gone(withinMs = Number.POSITIVE_INFINITY): Promise<void> {
    const { victims, isKeeper } = this.#options;
    const until = performance.now() + withinMs;
    // One that cannot be killed must not keep `holdfast run` alive for ever.
    const ref = isKeeper || Number.isFinite(withinMs);
    const count = (): number => (this.#isKilling ? victims.signal("SIGKILL") : victims.find().length);
    while (count() > 0 && performance.now() < until)
      await sleep(Math.max(lookMs, 4 * victims.lookMs), undefined, { ref });
  }

  /** Until everything has to be dead. */
  #leftMs(): number {
    const { state, victims } = this.#options;
    return state.leftMs() - Math.max(killAheadMs, 2 * victims.lookMs);
  }

  #look(): void {
    if (this.#isOver) return;
    clearTimeout(this.#timer);
    const { dueMs } = this.#next();
    if (dueMs <= 0) void this.#afterNews();
    else this.#timer = setTimeout(() => this.#look(), Math.max(1, Math.min(dueMs, timerMaxMs)));
  }

  /** What is next, and in how long. */
  #next(): { readonly leftMs: number; readonly dueMs: number } {
    const leftMs = Math.min(this.#leftMs(), this.#killAt - performance.now());
    if (this.#asked !== null || !this.#options.kills) return { leftMs, dueMs: leftMs };
    return { leftMs, dueMs: leftMs - this.#graceMs * (this.#options.isKeeper ? 1 : secondShare) };
  }

  /** After a stall the timer fires before the news of renewals are read: only then are the clocks believed. */
  async #afterNews(): Promise<void> {
    await newsHeard();
    if (this.#isOver) return;
    const { leftMs, dueMs } = this.#next();
    if (leftMs <= 0) this.#timeIsUp();
    else if (dueMs <= 0) this.#ask();
    else this.#look();
  }

  #ask(): void {
    this.#asked = this.#options.why();
    this.#killAt = performance.now() + this.#leftMs();
    // Told first: the other process need not ask, too.
    this.#options.asked(this.#asked);
    this.#options.victims.signal("SIGTERM");
    this.#look();
  }

  #timeIsUp(): void {
    if (this.#leftMs() <= 0) this.lose(this.#asked ?? this.#options.why());
    else this.#kill(this.#asked ?? this.#options.why());
  }

  #kill(why: string): void {
    this.stop();
    this.#isKilling = this.#options.kills;
    // Told first: the other process hears of it before it sees the command end.
    this.#options.lost(why);
    if (this.#options.kills) void this.gone();
  }
}
