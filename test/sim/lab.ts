// The laboratory of a simulated run: callers and streams over the simulated network, simulated time, and the
// history of what they asked and heard.
import type { Watched } from "../../src/service/watch.js";
import { type Call, type History, isChange, type Reply, type Seen } from "../../src/verify/history.js";
import type { Caller, Lab } from "../../src/verify/lab.js";
import { Recorder } from "../../src/verify/recorder.js";
import { space } from "../history/answers.js";
import type { Chance } from "./chance.js";
import type { Heard, Network, RecordCopy } from "./network.js";
import type { Scheduler } from "./scheduler.js";
import type { Tally } from "./situations.js";

/**
 * How far the server's clock and the run's may come apart over a lease: drift is under a millisecond, and each
 * restart may lose or win two by counting in whole ones.
 */
const clockBoundMs = 10;
/** How long callers wait for a reply beyond what they asked the server to wait. */
const patience = { minMs: 300, maxMs: 2000 };
/** Pause before a broken stream is opened again. */
const reconnect = { minMs: 20, maxMs: 2000 };

const principals = ["ada", "bob", "cyd"];

export class SimulatedLab implements Lab {
  readonly prefix = "";
  readonly now: () => number;
  readonly sleep: Lab["sleep"];
  readonly random: () => number;
  readonly #recorder = new Recorder(clockBoundMs);
  /** By stream: the last event that was heard. */
  readonly #lastIds = new Map<string, string>();
  #network: Network | null = null;
  #copies = 0;

  constructor(
    readonly scheduler: Scheduler,
    readonly tally: Tally,
    readonly chance: Chance,
    readonly over: AbortSignal,
  ) {
    this.now = scheduler.now;
    this.sleep = scheduler.sleep;
    this.random = chance.random;
  }

  /** The network through which everything goes; it tells of the copies that it makes. */
  set network(network: Network) {
    this.#network = network;
  }

  get network(): Network {
    if (this.#network === null) throw new Error("no network yet");
    return this.#network;
  }

  caller(process: string, who: number): Caller {
    const principal = principals[who % principals.length] ?? "";
    return {
      process,
      principal,
      call: (call, onLeave) => {
        const waitMs = call.op === "acquire" ? call.waitMs : 0;
        const patienceMs = waitMs + this.chance.between(patience.minMs, patience.maxMs);
        return this.#record(
          process,
          principal,
          call,
          this.network.ask(principal, call, patienceMs, onLeave?.()),
        );
      },
    };
  }

  readonly recordCopy: RecordCopy = (principal, call, heard) => {
    void this.#record(`copy-${++this.#copies}`, principal, call, heard);
  };

  async #record(process: string, principal: string, call: Call, heard: Promise<Heard>): Promise<Reply> {
    const began = this.now();
    const { reply, at: ended } = await heard;
    this.#recorder.operation({ process, principal, call, began, ended, reply });
    return reply;
  }

  async watch(stream: string, prefix: string, signal: AbortSignal): Promise<number> {
    let told = 0;
    while (!signal.aborted) {
      const after = this.#lastIds.get(stream);
      let resumes = after !== undefined;
      const frame = (watched: Watched): void => {
        const seen = seenOf(watched);
        if (seen.event === "reset") this.tally.note("watch reset");
        else if (resumes) this.tally.note("watch resumed");
        resumes = false;
        if (isChange(seen.event)) told++;
        if (seen.id !== null) this.#lastIds.set(stream, seen.id);
        this.#recorder.saw({ stream, at: this.now(), ...seen });
      };
      const mark = (event: "opened" | "closed", id: string | null): void =>
        this.#recorder.saw({ stream, at: this.now(), event, id, name: prefix, token: 0 });
      mark("opened", after ?? null);
      await this.network.view({ space, name: null, prefix, accept: () => true, after }, frame, signal);
      mark("closed", null);
      await this.sleep(this.chance.between(reconnect.minMs, reconnect.maxMs), signal);
    }
    return told;
  }

  history(): History {
    return this.#recorder.history();
  }
}

function seenOf(watched: Watched): Omit<Seen, "stream" | "at"> {
  switch (watched.type) {
    case "event": {
      const { type: event, name, token } = watched.event;
      return { event, id: watched.cursor, name, token };
    }
    case "snapshot": {
      const { name, token } = watched.holding.lock;
      return { event: "snapshot", id: null, name, token };
    }
    case "free":
      return { event: "snapshot", id: null, name: watched.name, token: watched.token };
    case "synced":
      return { event: "synced", id: watched.cursor, name: "", token: 0 };
    case "reset":
      return { event: "reset", id: null, name: "", token: 0 };
  }
}
