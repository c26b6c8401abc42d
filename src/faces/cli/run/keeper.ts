/**
 * The keeper of `holdfast run`: a process beside it, in a session of its own, that renews the lease and ends the command
 * when the lease is lost, or when `holdfast run` itself is gone. It learns of that from the pipe between them, which no
 * death can keep open: the operating system closes it, but not before a command that is being started has its own
 * program and environment, by which it is found. The bearer token comes through the same pipe, and stands neither in
 * this process's arguments nor in its environment.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { LeaseState } from "../../../client/lease-state.js";
import { Locks } from "../../../client/locks.js";
import { Renewal } from "../../../client/renewal.js";
import { Transport, type TransportOptions } from "../../../client/transport.js";
import { type Endpoint, endpointOf, placeText } from "../place.js";
import { Guard } from "./guard.js";
import type { FromKeeper, ToKeep, ToKeeper } from "./messages.js";
import { type Command, isSame, Victims } from "./victims.js";

/** How long a command that may have been started, but was not told of, is looked for. */
const appearsWithinMs = 1000;
const lookMs = 50;

class Keeper {
  readonly state = new LeaseState();
  readonly guard: Guard;
  readonly #victims: Victims;
  readonly #renewal: Renewal;
  readonly #locks: Locks;
  readonly #endpoint: Endpoint;
  /** `holdfast run` was about to start the command. */
  isStarting = false;
  /** Why the server could not be reached at the last attempt. */
  #trouble = "";

  constructor(readonly lease: ToKeep) {
    const { place, name, leaseId, renewAfterMs, expiresInMs, sentAt, kills } = lease;
    this.state.renewed(sentAt, expiresInMs);
    this.#endpoint = endpointOf(place);
    const options: TransportOptions = { ...this.#endpoint, space: undefined, fetch: this.#fetch };
    // What answers from a repository is loaded now: at the first renewal the program may have been replaced.
    if (place.kind === "repository")
      void this.#endpoint.fetch(`${this.#endpoint.url}/whoami`).catch(() => undefined);
    this.#locks = new Locks(new Transport(options));
    this.#victims = new Victims(leaseId);
    this.guard = new Guard({
      state: this.state,
      victims: this.#victims,
      kills,
      isKeeper: true,
      why: () => `it could not be renewed in time${this.#trouble}`,
      asked: (why) => tell({ type: "asked", why }),
      lost: (why) => tell({ type: "lost", why }),
    });
    this.#renewal = new Renewal(
      options,
      { name, leaseId, renewAfterMs, sentAt },
      this.state,
      (why) => this.guard.lose(why),
      (renewedAt, leftMs) => tell({ type: "renewed", sentAt: renewedAt, expiresInMs: leftMs }),
    );
  }

  started(command: Command): void {
    this.isStarting = false;
    this.guard.guards(command);
  }

  /** The command has ended. */
  async release(): Promise<void> {
    const isHeld = this.state.leftMs() > 0;
    this.guard.stop();
    this.#renewal.stop();
    if (isHeld) await this.#locks.release(this.lease.name, this.lease.leaseId).catch(() => undefined);
  }

  /**
   * `holdfast run` is gone: nobody waits for the command, so it is ended; then another may have the name at once. A
   * command that is never to be killed keeps its lease until it ends.
   */
  async orphaned(): Promise<void> {
    if (this.isStarting) await this.#appears();
    const { command } = this.#victims;
    if (this.lease.kills) this.guard.finish("holdfast run was ended");
    else while (command !== null && isSame(command)) await sleep(lookMs);
    if (this.lease.kills || command === null) await this.guard.gone();
    await this.release();
  }

  async #appears(): Promise<void> {
    const until = performance.now() + appearsWithinMs;
    while (this.#victims.find().length === 0 && performance.now() < until) await sleep(lookMs);
  }

  readonly #fetch: typeof fetch = async (...args) => {
    try {
      const response = await this.#endpoint.fetch(...args);
      this.#note(response.status < 500 ? "" : `: ${await this.#failureOf(response)}`);
      return response;
    } catch (error) {
      const { cause, message } = error as Error & { cause?: { code?: string } };
      this.#note(`: no reply from ${placeText(this.lease.place)} (${cause?.code ?? message})`);
      throw error;
    }
  };

  /** A repository says what git said, as often as it is asked; of a server the code is enough. */
  async #failureOf(response: Response): Promise<string> {
    const { place } = this.lease;
    if (place.kind === "server") return `${placeText(place)} answered ${response.status}`;
    const { details = "" } = (await response.json()) as { readonly details?: string };
    return details.replace(/^Certainly not done: |, and nothing was taken|[. ]*(?:Try again\.)?$/g, "");
  }

  #note(trouble: string): void {
    if (trouble === this.#trouble) return;
    this.#trouble = trouble;
    tell({ type: "trouble", trouble });
  }
}

let keeper: Keeper | null = null;
/** The last thing this process does. */
let end: Promise<void> | null = null;

function tell(message: FromKeeper): void {
  if (process.connected) process.send?.(message, () => undefined);
}

process.on("message", (message: ToKeeper) => {
  if (message.type === "keep") {
    keeper = new Keeper(message.lease);
    tell({ type: "ready" });
  } else if (message.type === "starting" && keeper !== null) {
    keeper.isStarting = true;
  } else if (message.type === "started") {
    keeper?.started(message.command);
  } else if (message.type === "done") {
    end = keeper?.release() ?? Promise.resolve();
    void end.then(() => process.disconnect?.());
  }
});

process.on("disconnect", () => {
  end ??= keeper?.orphaned() ?? Promise.resolve();
  void end.finally(() => process.exit(0));
});

// A terminal's signals are for the command; who wants to end this process ends `holdfast run`.
for (const signal of ["SIGINT", "SIGQUIT", "SIGHUP", "SIGTSTP", "SIGTERM"] as const)
  process.on(signal, () => {});
