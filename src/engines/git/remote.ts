/**
 * The references of a remote, which all its clones share. A look is one connection, and one more where it finds records
 * that are not here; a swap is one push, which the remote compares and makes in one step. Nothing of it enters the
 * references of this clone: objects are fetched without a name.
 */

import { StoreError } from "../../store/store.js";
import { type Authority, guardRef, lockPrefix, type Refs, type Swap, type SwapEnd } from "./authority.js";
import { type GitEnd, type GitProgram, whyOf } from "./git-program.js";

/** References fetched by one process: a command line has an end. */
const fetchMax = 500;

export class RemoteRefs implements Authority {
  readonly isRemote = true;
  obstacle: string | null = null;

  constructor(
    readonly git: GitProgram,
    readonly remote: string,
    /** Where pushes to it go: what decides is what is looked at. Its name says so, unless it is fetched from elsewhere. */
    readonly address: string = remote,
  ) {}

  get place(): string {
    return `the remote ${this.remote}`;
  }

  read(refs: readonly string[]): Promise<Refs> {
    return this.#list(refs);
  }

  readAll(): Promise<Refs> {
    return this.#list(["refs/holdfast/*"]);
  }

  /**
   * By the names of the objects: what a reference pointed to a moment ago may have been replaced since, and where many
   * locks are renewed one of them always is. A remote that gives only what its references point to is asked by those.
   */
  async bring(refs: Refs): Promise<void> {
    const pairs = [...refs];
    for (let at = 0; at < pairs.length; at += fetchMax) {
      const some = pairs.slice(at, at + fetchMax);
      const first = await this.#fetch(some.map(([, oid]) => oid));
      if (first.code === 0) continue;
      if (first.code === null) throw this.#unreachable(first);
      const end = await this.#fetch(some.map(([ref]) => ref));
      // One that was removed since is found out by the next look.
      if (end.code !== 0 && !/couldn't find remote ref/.test(end.stderr)) throw this.#unreachable(end);
    }
  }

  #fetch(what: readonly string[]): Promise<GitEnd> {
    return this.git.run([
      "fetch",
      "--quiet",
      "--no-tags",
      "--no-write-fetch-head",
      "--no-auto-maintenance",
      "--no-recurse-submodules",
      "--no-prune",
      "--refmap=",
      "--",
      this.address,
      ...what,
    ]);
  }

  async swap(swaps: readonly Swap[]): Promise<SwapEnd> {
    const end = await this.#push(swaps);
    const said = statusesIn(end.stdout);
    const flags = swaps.map(({ ref }) => said.get(ref));
    if (end.code === 0 && flags.every((status) => status !== undefined && " +*-".includes(status.flag)))
      return "done";
    if (flags.some((status) => status !== undefined && isUnanswered.test(status.text))) return "unknown";
    if (flags.some((status) => status !== undefined)) return this.#refusal([...said.values()], end.stderr);
    if (isUnsent.test(end.stderr)) throw this.#unreachable(end);
    if (end.code === null || isUncertain.test(end.stderr)) return "unknown";
    throw this.#unreachable(end);
  }

  /** What was there already counts as lost: it is not what we wrote, since nothing is ever written twice. */
  #refusal(statuses: readonly Status[], stderr: string): SwapEnd {
    const refused = statuses.find(({ flag, text }) => flag === "!" && isForbidden.test(text));
    const lost = statuses.find(({ flag }) => flag === "!");
    // The remote's own words may name the file that is in the way there; the status of a reference never does.
    this.obstacle = /^remote: error: (.*\S)/m.exec(stderr)?.[1] ?? lost?.text ?? null;
    if (refused === undefined) return "lost";
    throw new StoreError(
      "unavailable",
      `${this.place} does not take lock references (refs/holdfast/*): ${refused.text}${wordsOfRemote(stderr)}. Ask for the right to write there, or use another authority: git config holdfast.authority local`,
    );
  }

  async probe(oid: string): Promise<void> {
    const ref = `refs/holdfast/probe/${oid}`;
    const probes: readonly Swap[] = [
      { ref, old: null, fresh: oid },
      { ref, old: oid, fresh: null },
    ];
    let isShown = false;
    for (const swap of probes) {
      const end = await this.#push([swap]);
      const [status] = statusesIn(end.stdout).values();
      if (status?.flag === "!") this.#refusal([status], end.stderr);
      if (end.code !== 0) throw this.#unreachable(end);
      if (swap.fresh !== null) isShown = (await this.#lines([ref])).length > 0;
    }
    if (isShown) return;
    throw new StoreError(
      "unavailable",
      `${this.place} takes lock references and does not show them (uploadpack.hideRefs?): nobody could see who holds a lock`,
    );
  }

  /** In one step, whatever the user has set for pushes of their own. */
  async #push(swaps: readonly Swap[]): Promise<GitEnd> {
    const end = await this.git.run([
      // A clone made as a mirror would push everything or nothing.
      "-c",
      `remote.${this.remote}.mirror=false`,
      "push",
      "--porcelain",
      "--atomic",
      "--no-verify",
      "--no-follow-tags",
      "--no-signed",
      "--recurse-submodules=no",
      ...swaps.map(({ ref, old }) => `--force-with-lease=${ref}:${old ?? ""}`),
      "--",
      this.remote,
      ...swaps.map(({ ref, fresh }) => `${fresh ?? ""}:${ref}`),
    ]);
    if (!/does not support --atomic push/.test(end.stderr)) return end;
    throw new StoreError(
      "unavailable",
      `${this.place} does not change several references in one step (git push --atomic), so it cannot decide about locks: use another authority, as git config holdfast.authority local`,
    );
  }

  async close(): Promise<void> {}

  async #list(patterns: readonly string[]): Promise<Refs> {
    const refs = new Map<string, string>();
    for (const line of await this.#lines(patterns)) {
      const [oid = "", ref = ""] = line.split("\t");
      // A pattern also matches the end of longer names.
      if (ref === guardRef || ref.startsWith(lockPrefix)) refs.set(ref, oid);
    }
    return refs;
  }

  async #lines(patterns: readonly string[]): Promise<readonly string[]> {
    const end = await this.git.run(["ls-remote", "--refs", "--", this.address, ...patterns]);
    if (end.code !== 0) throw this.#unreachable(end);
    return end.stdout.split("\n").filter((line) => line !== "");
  }

  #unreachable(end: GitEnd): StoreError {
    return new StoreError(
      "unavailable",
      `${this.place} cannot be reached, and nothing was taken: ${whyOf(end, this.git.timeoutMs)}`,
    );
  }
}

/** What git says when the remote never told what it has: then nothing was sent, whatever broke the connection. */
const isUnsent =
  /Could not read from remote repository|hung up upon initial contact|^fatal: unable to (?:access|connect to|look up) /im;

/** The connection broke, or git was ended, while something may have been on its way. */
const isUncertain =
  /hung up|early EOF|unexpected(?:ly)? (?:disconnect|closed)|RPC failed|Broken pipe|timed out|reset by peer|died of signal|protocol error|was ended by SIG/i;

/** What git says of a reference when the remote took everything and then fell silent. */
const isUnanswered = /remote failure|failed to report status/i;

/** The remote will refuse the next try as well. */
const isForbidden =
  /hook declined|hidden ref|deny|denied|prohibited|not allowed|permission|protected|read.only|funny refname|unpacker error/i;

/** What its hook said, which knows best. */
function wordsOfRemote(stderr: string): string {
  const said = stderr.split("\n").flatMap((line) => /^remote: (.*?\S)\s*$/.exec(line)?.[1] ?? []);
  return said.length === 0 ? "" : ` (it said: ${said.join("; ").slice(0, saidMax)})`;
}

/** Characters: a hook may print a page. */
const saidMax = 300;

interface Status {
  readonly flag: string;
  readonly text: string;
}

/** By reference: `*\t<from>:<to>\t<what happened>`. */
export function statusesIn(porcelain: string): Map<string, Status> {
  const statuses = new Map<string, Status>();
  for (const line of porcelain.split("\n")) {
    const match = /^([ +\-*=!])\t[^:\t]*:([^\t]+)\t(.*)$/.exec(line);
    if (match !== null) statuses.set(match[2] ?? "", { flag: match[1] ?? "", text: match[3] ?? "" });
  }
  return statuses;
}
