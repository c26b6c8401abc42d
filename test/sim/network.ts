// The network between callers and the server: slow, lossy, at times cut. A request may be lost, come late, after
// its caller gave up, or twice; a reply may be lost after the server did what was asked.
import type { Watched, WatchQuery } from "../../src/service/watch.js";
import type { Call, Reply } from "../../src/verify/history.js";
import type { Chance } from "./chance.js";
import type { Asker, Machine } from "./machine.js";
import type { Scheduler } from "./scheduler.js";
import type { Tally } from "./situations.js";

/** How likely each mishap is. */
export interface NetworkWeather {
  readonly requestLost: number;
  readonly requestLate: number;
  readonly requestTwice: number;
  readonly replyLost: number;
  /** The caller closes its connection soon, whatever it waits for. */
  readonly closedEarly: number;
  /** How long a stream lives on average, in ms. */
  readonly streamMs: number;
}

export const calm: NetworkWeather = {
  requestLost: 0,
  requestLate: 0,
  requestTwice: 0,
  replyLost: 0,
  closedEarly: 0,
  streamMs: Number.POSITIVE_INFINITY,
};

/** What a caller heard, and when: of what it does not know, it never hears. */
export interface Heard {
  readonly reply: Reply;
  readonly at: number;
}

/** Records an operation that nobody asked for: a copy that the network made. */
export type RecordCopy = (principal: string, call: Call, heard: Promise<Heard>) => void;

const noReply: Reply = { kind: "unknown", why: "no reply" };

export class Network {
  weather: NetworkWeather = calm;
  cutUntil = 0;
  #ids = 0;

  constructor(
    readonly scheduler: Scheduler,
    readonly machine: Machine,
    readonly tally: Tally,
    readonly chance: Chance,
    readonly recordCopy: RecordCopy,
  ) {}

  get #isCut(): boolean {
    return this.scheduler.now() < this.cutUntil;
  }

  #delayMs(): number {
    return this.chance.skewed(0.1, 60);
  }

  /** Sends a request and waits for the reply as long as the caller has patience. */
  ask(principal: string, call: Call, patienceMs: number, signal?: AbortSignal): Promise<Heard> {
    const { chance, weather } = this;
    if (chance.happens(weather.requestTwice)) {
      this.tally.note("request twice");
      const patient = Number.POSITIVE_INFINITY;
      this.recordCopy(principal, call, this.#converse(principal, call, patient, chance.between(0, 1500)));
    }
    const early = chance.happens(weather.closedEarly);
    if (early) this.tally.note("connection closed");
    const patience = early ? chance.skewed(0.5, patienceMs) : patienceMs;
    return this.#converse(principal, call, patience, this.#requestDelayMs(patience), signal);
  }

  /** When a request arrives; null: never. */
  #requestDelayMs(patienceMs: number): number | null {
    const { chance, weather } = this;
    if (chance.happens(weather.requestLate)) {
      this.tally.note("request late");
      return patienceMs + chance.between(0, 3000);
    }
    const isLost = chance.happens(this.#isCut ? 0.5 : weather.requestLost);
    if (isLost) this.tally.note("request lost");
    if (isLost) return null;
    // What is sent into a cut and not lost is sent again when the cut has healed.
    return this.#delayMs() + Math.max(0, this.cutUntil - this.scheduler.now());
  }

  #converse(
    principal: string,
    call: Call,
    patienceMs: number,
    delayMs: number | null,
    signal?: AbortSignal,
  ): Promise<Heard> {
    const { scheduler, machine, tally } = this;
    const isCopy = patienceMs === Number.POSITIVE_INFINITY;
    return new Promise((resolve) => {
      const waits = call.op === "acquire" && call.waitMs > 0;
      const gone = waits ? new AbortController() : null;
      const newId = `${call.op === "open" ? "s" : "l"}${++this.#ids}`;
      let state: "sent" | "arrived" | "answered" = "sent";
      let listens = true;
      let late = false;
      const hear = (reply: Reply): void => {
        if (!listens) return;
        listens = false;
        stop();
        signal?.removeEventListener("abort", giveUp);
        resolve({ reply, at: reply.kind === "unknown" ? Number.POSITIVE_INFINITY : scheduler.now() });
      };
      const giveUp = (): void => {
        hear(noReply);
        this.#send(() =>
          machine.notice(() => {
            if (state !== "arrived") return;
            if (waits) tally.note("waiter gone before its grant");
            gone?.abort("left");
          }),
        );
      };
      const stop = isCopy ? () => undefined : scheduler.after(patienceMs, giveUp);
      signal?.addEventListener("abort", giveUp, { once: true });
      if (signal?.aborted) giveUp();
      const asker: Asker = {
        request: { principal, call, newId, gone: gone?.signal ?? never },
        cut: (why) =>
          void scheduler.after(this.#delayMs(), () => hear(why === "refused" ? unreachable : reset)),
        reply: (reply) => {
          state = "answered";
          machine.witness.replied(call, newId, reply, machine.disk);
          this.#answer(reply, listens, late, isCopy, () => hear(reply));
        },
      };
      if (delayMs !== null)
        scheduler.after(delayMs, () => {
          state = "arrived";
          late = !listens;
          if (isCopy) tally.note("duplicate delivered");
          machine.ask(asker);
        });
    });
  }

  /** Carries a reply back, unless it is lost or nobody listens. */
  #answer(reply: Reply, listens: boolean, late: boolean, isCopy: boolean, hear: () => void): void {
    const done = reply.kind === "granted" || reply.kind === "done" || reply.kind === "opened";
    if (!listens) {
      if (done) this.tally.note(late ? "late request that took effect" : "lost reply that had committed");
      return;
    }
    if (isCopy) {
      hear();
      return;
    }
    if (this.#isCut || this.chance.happens(this.weather.replyLost)) {
      this.tally.note("reply lost");
      if (done) this.tally.note("lost reply that had committed");
      return;
    }
    this.scheduler.after(this.#delayMs(), hear);
  }

  /** Word that a connection was closed: lost in a cut. */
  #send(run: () => void): void {
    if (!this.#isCut) this.scheduler.after(this.#delayMs(), run);
  }

  /** Opens a stream. Its frames arrive in order, until it breaks; `over` then resolves. */
  view(query: WatchQuery, frame: (watched: Watched) => void, signal: AbortSignal): Promise<void> {
    const { scheduler, chance, weather } = this;
    return new Promise((resolve) => {
      const left = new AbortController();
      let listens = true;
      let arrivesAt = 0;
      const close = (): void => {
        if (!listens) return;
        listens = false;
        stop();
        signal.removeEventListener("abort", close);
        resolve();
        this.#send(() => this.machine.notice(() => left.abort("left")));
      };
      const cut = (): void => {
        this.tally.note("stream cut");
        close();
      };
      const lifeMs =
        weather.streamMs === Number.POSITIVE_INFINITY ? null : chance.skewed(1, 3 * weather.streamMs);
      const stop = lifeMs === null ? () => undefined : scheduler.after(lifeMs, cut);
      signal.addEventListener("abort", close, { once: true });
      const inOrder = (run: () => void): void => {
        if (this.#isCut) {
          cut();
          return;
        }
        arrivesAt = Math.max(arrivesAt, scheduler.now() + this.#delayMs());
        scheduler.at(arrivesAt, () => {
          if (listens) run();
        });
      };
      this.scheduler.after(this.#delayMs(), () => {
        if (!listens || this.#isCut) close();
        else
          this.machine.view({
            query,
            left: left.signal,
            cut: () => inOrder(close),
            frame: (watched) => inOrder(() => frame(watched)),
          });
      });
    });
  }
}

/** Of a caller that the server would not listen for. */
const never = new AbortController().signal;
const reset = { kind: "unknown", why: "connection reset" } as const;
const unreachable = { kind: "refused", code: "unreachable" } as const;
