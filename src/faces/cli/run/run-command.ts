/**
 * `holdfast run NAME -- COMMAND…`: a command that runs only while its lease is held. There is no moment at which the
 * command runs unguarded: both guards, here and in the keeper, stand before it is started. If this process is killed
 * between the grant and the keeper's readiness the lease stays for its TTL, and nothing runs under it.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, constants as fileConstants, openSync } from "node:fs";
import { constants } from "node:os";
import type { Client } from "../../../client/client.js";
import { LeaseState } from "../../../client/lease-state.js";
import { connect } from "../connect.js";
import { CliError, exitCodes } from "../failure.js";
import type { Place } from "../place.js";
import type { ServerFlags } from "../settings.js";
import { sayLine } from "../stderr.js";
import { WaitingLine } from "../waiting-line.js";
import { notGranted, whyLost } from "../wording.js";
import { Guard, newsHeard } from "./guard.js";
import { KeeperLink } from "./keeper-link.js";
import type { FromKeeper } from "./messages.js";
import { isInForeground, startOf } from "./processes.js";
import { Signals } from "./signals.js";
import { durationsOf, maybeHeld, type TakeFlags, type Taken, take } from "./take.js";
import { leaseVariable, Victims } from "./victims.js";

export interface RunFlags extends ServerFlags, TakeFlags {
  readonly onLoss?: string;
  readonly json?: boolean;
}

/** How long the command's processes may take to end once they were killed. */
const stragglersMaxMs = 2000;
/** How long this process tries to release where its keeper cannot. */
const releaseMaxMs = 5000;

/** Returns the exit code. */
export async function runCommand(name: string, command: readonly string[], flags: RunFlags): Promise<number> {
  const kills = onLossOf(flags.onLoss);
  const [file, ...args] = command;
  if (file === undefined || file === "")
    throw new CliError(`name a command: holdfast run ${name} -- COMMAND`, exitCodes.usage);
  const durations = durationsOf(flags);
  const signals = new Signals();
  const { client, place } = await connect(flags);
  const taken = await takeOrExplain(client, name, { ...flags, ...durations }, signals.stop);
  const run = await begin(client, taken, () => new Run(client, place, taken, kills, signals));
  try {
    await run.keep();
    return await run.command(file, args);
  } finally {
    await run.release();
  }
}

/** A system that has no room for another process must not keep the lease. */
async function begin(client: Client, { reply }: Taken, make: () => Run): Promise<Run> {
  try {
    return make();
  } catch (error) {
    await releaseQuietly(client, reply.name, reply.leaseId);
    throw new CliError(`cannot start the keeper process: ${(error as Error).message}`, exitCodes.cannotRun);
  }
}

async function releaseQuietly(client: Client, name: string, leaseId: string): Promise<void> {
  const signal = AbortSignal.timeout(releaseMaxMs);
  // What cannot be released now ends with its TTL.
  await client.locks.release(name, leaseId, { signal }).catch(() => undefined);
}

function onLossOf(text = "kill"): boolean {
  if (text !== "kill" && text !== "warn")
    throw new CliError(`--on-loss ${text}: use kill or warn`, exitCodes.usage);
  return text === "kill";
}

async function takeOrExplain(
  client: Client,
  name: string,
  { ttlSeconds, waitMs, metadata }: { ttlSeconds: number; waitMs: number; metadata?: string },
  signal: AbortSignal,
): Promise<Taken> {
  const line = new WaitingLine(name);
  const onWaiting = line.show.bind(line);
  const begunAt = Date.now();
  const exitCode = exitCodes.notInTime;
  try {
    const taken = await take(client, { name, ttlSeconds, waitMs, metadata, exitCode, onWaiting, signal });
    if ("reply" in taken) return taken;
    if (taken.status === "interrupted")
      throw interrupted(signal, `interrupted while waiting for ${name}: nothing was run`, taken);
    throw notGranted(name, taken, { wantedMs: waitMs, waitedMs: Date.now() - begunAt }, exitCode);
  } finally {
    line.clear();
  }
}

/** As a shell answers for a process that a signal has ended. */
const interrupted = (signal: AbortSignal, message: string, { isClean } = { isClean: true }): CliError =>
  new CliError(
    isClean ? message : `${message}. ${maybeHeld}`,
    128 + constants.signals[signal.reason as NodeJS.Signals],
    { code: "interrupted" },
  );

class Run {
  readonly name: string;
  readonly #state = new LeaseState();
  readonly #victims: Victims;
  readonly #guard: Guard;
  readonly #keeper: KeeperLink;
  #trouble = "";
  /** Why the command was ended, or would have been. */
  #lost: string | null = null;

  constructor(
    readonly client: Client,
    readonly place: Place,
    readonly taken: Taken,
    readonly kills: boolean,
    readonly signals: Signals,
  ) {
    const { leaseId, expiresInMs, name } = taken.reply;
    this.name = name;
    this.#state.renewed(taken.sentAt, expiresInMs);
    this.#keeper = new KeeperLink(
      (message) => this.#hear(message),
      () => this.#guard.finish("its keeper process was ended"),
    );
    this.#victims = new Victims(leaseId);
    this.#guard = new Guard({
      state: this.#state,
      victims: this.#victims,
      kills,
      isKeeper: false,
      why: () => `it could not be renewed in time${this.#trouble}`,
      asked: (why) => this.#lose(why),
      lost: (why) => this.#lose(why),
    });
  }

  /** Hands the lease to the keeper; from here on it is renewed and guarded. */
  async keep(): Promise<void> {
    const { reply, sentAt } = this.taken;
    const { name, leaseId, renewAfterMs, expiresInMs } = reply;
    const lease = { name, leaseId, renewAfterMs, expiresInMs, sentAt, kills: this.kills };
    await this.#keeper.keep({ ...lease, place: this.place });
  }

  /** Runs it to its end. Returns the exit code. */
  async command(file: string, args: readonly string[]): Promise<number> {
    const { stop } = this.signals;
    if (stop.aborted) throw interrupted(stop, "interrupted: nothing was run");
    if (this.#lost === null && this.#state.leftMs() === 0) this.#guard.lose("this process was stopped");
    if (this.#lost !== null) throw this.#lossError(this.#lost);
    const code = await this.#ended(file, args);
    await newsHeard();
    if (this.#lost === null || !this.kills) return code;
    // Another user's process cannot be killed, and is not waited for.
    await this.#guard.gone(stragglersMaxMs);
    throw this.#lossError(this.#lost);
  }

  /** Told only once the command is ended: a standard error that nobody reads would hold up whoever writes to it. */
  #lossError(why: string): CliError {
    const { name, kills } = this;
    const reason = whyLost(name, why)
      .replace(/ Acquire it again before going on\.$/, "")
      .replace(/\.$/, "");
    const next = kills ? "the command is ended" : "the command goes on (--on-loss warn)";
    return new CliError(`the lease on ${name} is lost: ${reason}; ${next}`, exitCodes.lost, {
      details: { resource: name, token: this.taken.reply.fencingToken, reason },
    });
  }

  /** In every case, also if nothing was run. */
  async release(): Promise<void> {
    this.#guard.stop();
    if (await this.#keeper.release()) return;
    if (this.#state.leftMs() === 0) return;
    await releaseQuietly(this.client, this.name, this.taken.reply.leaseId);
  }

  async #ended(file: string, args: readonly string[]): Promise<number> {
    // At a terminal it must stay in the terminal's session; elsewhere a group of its own can be signalled as a whole.
    const group = !hasTerminal();
    this.#keeper.tell({ type: "starting" });
    let child: ChildProcess;
    try {
      child = spawn(file, args, { stdio: "inherit", detached: group, env: this.#environment() });
    } catch (error) {
      throw cannotRun(file, error as NodeJS.ErrnoException);
    }
    const { pid } = child;
    if (pid !== undefined) this.#started(pid, group);
    return new Promise((resolve, reject) => {
      child.once("error", (error) => reject(cannotRun(file, error)));
      child.once("exit", (code, signal) => {
        this.signals.forwardTo(() => {});
        resolve(signal === null ? (code ?? exitCodes.other) : 128 + constants.signals[signal]);
      });
    });
  }

  #environment(): NodeJS.ProcessEnv {
    const { leaseId, fencingToken } = this.taken.reply;
    return {
      ...process.env,
      [leaseVariable]: leaseId,
      HOLDFAST_FENCING_TOKEN: String(fencingToken),
      HOLDFAST_NAME: this.name,
    };
  }

  /** In the same turn in which it was started: nothing may come between. */
  #started(pid: number, group: boolean): void {
    const command = { pid, group, startedAt: startOf(pid) };
    this.#keeper.tell({ type: "started", command });
    this.#guard.guards(command);
    this.signals.forwardTo((signal) => {
      // A terminal sends these to everybody in the foreground, the command included.
      const isFromTerminal = !group && (signal === "SIGINT" || signal === "SIGQUIT") && isInForeground();
      if (!isFromTerminal) send(group ? -pid : pid, signal);
    });
  }

  #hear(message: FromKeeper): void {
    if (message.type === "renewed") this.#state.renewed(message.sentAt, message.expiresInMs);
    else if (message.type === "trouble") this.#trouble = message.trouble;
    else if (message.type === "asked") this.#guard.wasAsked(message.why);
    else if (message.type === "lost") this.#guard.lose(message.why);
  }

  #lose(why: string): void {
    if (this.#lost !== null) return;
    this.#lost = why;
    if (!this.kills) sayLine(`holdfast: ${this.#lossError(why).message}`);
  }
}

function cannotRun(file: string, error: NodeJS.ErrnoException): CliError {
  const isMissing = error.code === "ENOENT";
  const why = isMissing ? "no such command" : error.code === "EACCES" ? "permission denied" : error.message;
  const exitCode = isMissing ? exitCodes.noCommand : exitCodes.cannotRun;
  return new CliError(`cannot run ${file}: ${why}`, exitCode, { details: { command: file, reason: why } });
}

/** Whether this process belongs to a terminal, wherever its standard input comes from. */
function hasTerminal(): boolean {
  try {
    closeSync(openSync("/dev/tty", fileConstants.O_RDWR | fileConstants.O_NOCTTY));
    return true;
  } catch {
    return false;
  }
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended.
  }
}
