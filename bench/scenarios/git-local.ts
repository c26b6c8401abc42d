// Locks of a clone by a process that lives on: acquire and release, again and again, by one caller and by several, beside
// two standing git processes that write the same texts and swap the same references and do nothing else. All in each round,
// because a disk that others sync as well is another one from minute to minute.

import { type ChildProcessWithoutNullStreams, execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { ftruncateSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Claim } from "../../src/core/lease.js";
import { policyDefault } from "../../src/core/limits.js";
import { openGit } from "../../src/engines/git/open.js";
import { findRepository } from "../../src/engines/git/repository.js";
import { SoloLeases } from "../../src/service/solo-leases.js";
import { temporaryDirectory } from "../children.js";
import { atLeast, type Findings, median } from "../findings.js";
import type { Lab } from "../lab.js";

/** Several names at once: their git processes are the same two. */
const CALLERS = 16;
/** Pairs before anything is timed: a process starts its standing git with the third. */
const WARM = 20;
/** As the engine calls git. */
const SETTINGS = ["-c", "core.fsync=loose-object,reference", "-c", "core.logAllRefUpdates=false"];

interface Rate {
  readonly perSecond: number;
  /** Of this process, for each pair. */
  readonly cpuMs: number;
}

type Round = Readonly<Record<"one" | "several" | "bare", Rate>>;

export async function gitLocal(lab: Lab): Promise<Findings> {
  const dir = temporaryDirectory(lab.options.tmp);
  execFileSync("git", ["init", "-q"], { cwd: dir });
  const leases = new SoloLeases(
    openGit(findRepository(dir, process.env), { authority: "local", session: null }),
    policyDefault,
  );
  const bare = new BareGit(dir);
  const rounds: Round[] = [];
  try {
    for (let i = 0; i < WARM; i += 1) await pair(lab, leases, "warm");
    for (let round = 0; round < lab.options.rounds; round += 1) {
      const ms = lab.options.seconds * 1000;
      const one = await rate(ms, [() => pair(lab, leases, "one")]);
      const beside = await rate(ms, [() => bare.pair()]);
      const names = Array.from({ length: CALLERS }, (_, i) => `several-${i}`);
      const several = await rate(
        ms,
        names.map((name) => () => pair(lab, leases, name)),
      );
      rounds.push({ one, bare: beside, several });
      lab.say(`git-local: round ${round + 1} of ${lab.options.rounds}`);
    }
  } finally {
    await leases.store.close();
    bare.close();
  }
  return findingsOf(rounds);
}

function findingsOf(rounds: readonly Round[]): Findings {
  const of = (name: keyof Round) => ({
    perSecond: median(rounds.map((round) => round[name].perSecond)),
    cpuMs: median(rounds.map((round) => round[name].cpuMs)),
  });
  const row = (label: string, name: keyof Round) => ({
    label,
    value: `${of(name).perSecond.toFixed(0)}/s, processor of this process ${of(name).cpuMs.toFixed(2)} ms each`,
  });
  const bar = "local acquire and release per second in a long-lived process";
  const beside = (name: keyof Round): string =>
    median(rounds.map((round) => round[name].perSecond / round.bare.perSecond)).toFixed(2);
  return {
    facts: [
      row("acquire and release of a name in a clone, one caller", "one"),
      row(`the same of ${CALLERS} names at once`, "several"),
      row("two standing git processes that write and swap the same, and nothing else", "bare"),
      { label: "one caller beside the two processes", value: beside("one") },
      { label: `${CALLERS} names beside the two processes`, value: beside("several") },
    ],
    bars: [
      atLeast(`${bar}, one caller`, of("one").perSecond, 500),
      atLeast(`${bar}, ${CALLERS} names at once`, of("several").perSecond, 500),
    ],
  };
}

async function rate(ms: number, callers: readonly (() => Promise<void>)[]): Promise<Rate> {
  const cpu = process.cpuUsage();
  const from = performance.now();
  let pairs = 0;
  await Promise.all(
    callers.map(async (call) => {
      while (performance.now() - from < ms) {
        await call();
        pairs += 1;
      }
    }),
  );
  const elapsedMs = performance.now() - from;
  const { user, system } = process.cpuUsage(cpu);
  return { perSecond: (pairs / elapsedMs) * 1000, cpuMs: (user + system) / 1000 / pairs };
}

async function pair(lab: Lab, leases: SoloLeases, name: string): Promise<void> {
  const [space, principal, leaseId] = ["default", "bench", randomBytes(8).toString("hex")];
  const claim: Claim = {
    ...{ space, name, principal, leaseId, owner: null, metadata: null, ttlMs: 60_000 },
    ...{ delayMs: 0, sessionId: null, proof: null, reentrant: false, request: null },
  };
  const acquired = await leases.acquire(claim, null);
  if (!("granted" in acquired)) lab.fail(`git-local: ${name} was refused: ${acquired.refused}`);
  const call = { space, name, principal, leaseId, outcome: null, note: null, repeatable: false };
  const released = await leases.release(call);
  if ("refused" in released) lab.fail(`git-local: ${name} was not released: ${released.refused}`);
}

/** The two processes of the engine, with a record's text and a reference, and no rules. */
class BareGit {
  readonly #writer: Talk;
  readonly #swapper: Talk;
  readonly #path: string;
  readonly #file: number;
  #old = "";

  constructor(dir: string) {
    this.#writer = new Talk(dir, ["hash-object", "-w", "--no-filters", "--stdin-paths"]);
    this.#swapper = new Talk(dir, ["update-ref", "--stdin"]);
    this.#path = join(dir, ".git", "bench-record");
    this.#file = openSync(this.#path, "wx+");
  }

  async pair(): Promise<void> {
    for (const state of ["held", "free"]) {
      const text = JSON.stringify({
        write_id: randomBytes(16).toString("hex"),
        state,
        rest: "x".repeat(500),
      });
      writeSync(this.#file, text, 0);
      ftruncateSync(this.#file, text.length);
      const [oid = ""] = await this.#writer.ask(`${this.#path}\n`, 1);
      const old = this.#old || "0".repeat(oid.length);
      await this.#swapper.ask(`start\nupdate refs/bench/lock ${oid} ${old}\ncommit\n`, 2);
      this.#old = oid;
    }
  }

  close(): void {
    this.#writer.close();
    this.#swapper.close();
  }
}

class Talk {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #lines: AsyncIterator<string>;

  constructor(cwd: string, args: readonly string[]) {
    this.#child = spawn("git", [...SETTINGS, ...args], { cwd });
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  async ask(text: string, answers: number): Promise<string[]> {
    this.#child.stdin.write(text);
    const said: string[] = [];
    while (said.length < answers) {
      const { value, done } = await this.#lines.next();
      if (done === true) throw new Error("git ended");
      said.push(value);
    }
    return said;
  }

  close(): void {
    this.#child.stdin.end();
  }
}
