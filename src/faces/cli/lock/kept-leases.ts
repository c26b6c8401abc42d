/**
 * The lease ids that commands keep for the next command of the same session, in files that only their user can read:
 * a directory for each server, principal and session, in it a file for each lease and one for each attempt. An attempt
 * is written before the call is sent, with the request id: if this process is killed after the server's commit, the
 * next command finds the lease by it. A losing attempt removes its own file and no other.
 */
import { createHash, randomBytes } from "node:crypto";
import {
  linkSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { makeDirectory } from "../../../store/directory.js";
import { CliError, exitCodes } from "../failure.js";
import { type Environment, userDir } from "../settings.js";
import type { ProcessMark } from "./process-mark.js";
import type { CallingSession } from "./session.js";

/** Whose leases: one server, one tenant, one principal. */
export interface Authority {
  readonly server: string;
  readonly space: string;
  readonly principal: string;
}

interface Common extends Authority {
  readonly kind: "lock" | "job";
  readonly sessionKind: CallingSession["kind"];
  readonly sessionLabel: string;
  /** The process that called. */
  readonly caller: ProcessMark;
  readonly requestId: string;
  readonly ttlSeconds: number | null;
}

/** What is asked for, so that the same can be asked again. */
export interface Wish {
  readonly kind: "lock" | "job";
  readonly resources: readonly string[];
  readonly requestId: string;
  readonly ttlSeconds: number | null;
  readonly metadata: unknown;
  readonly owner: string | null;
}

export interface Attempt extends Common, Wish {
  readonly file: string;
  /** The command itself: while it lives, nobody else may ask by its request id. */
  readonly command: ProcessMark;
}

export interface Grant {
  readonly resource: string;
  readonly leaseId: string;
  readonly token: number;
  readonly expiresAt: number;
}

export interface Kept extends Common, Grant {
  readonly file: string;
}

export const stateDir = (env: Environment = process.env): string =>
  userDir(env, "XDG_STATE_HOME", ".local", "state");

const leaseEnding = ".lease";
const attemptEnding = ".attempt";

export class KeptLeases {
  readonly #root: string;
  readonly #dir: string;

  constructor(
    readonly authority: Authority,
    readonly session: CallingSession,
    readonly command: ProcessMark,
    state: string = stateDir(),
  ) {
    const { server, space, principal } = authority;
    this.#root = join(state, "leases");
    this.#dir = join(this.#root, hashOf([server, space, principal, session.key]));
  }

  /** Before the call is sent. Where nothing can be kept, nothing is asked for. */
  begin(wish: Wish): Attempt {
    const file = join(this.#dir, `${randomBytes(12).toString("hex")}${attemptEnding}`);
    const attempt: Attempt = { ...wish, ...this.#common(), file, command: this.command };
    this.#write(file, attempt);
    return attempt;
  }

  /** It was granted: the lease takes the attempt's place. */
  promote(attempt: Attempt, grant: Grant): Kept {
    const { kind, requestId, ttlSeconds } = attempt;
    const kept = this.keep({ ...this.#common(), kind, requestId, ttlSeconds, ...grant });
    this.discard(attempt);
    return kept;
  }

  discard(attempt: Attempt): void {
    rmSync(attempt.file, { force: true });
    this.#removeEmpty(dirname(attempt.file));
  }

  /** Takes over an attempt that a killed command left behind; null if another command was first. */
  inherit(left: Attempt): Attempt | null {
    const own = this.begin(left);
    try {
      unlinkSync(left.file);
      return own;
    } catch {
      this.discard(own);
      return null;
    }
  }

  /** Also of another session's lease: from now on it is this session's. */
  keep(kept: Omit<Kept, "file">): Kept {
    const file = join(this.#dir, `${hashOf([kept.resource])}${leaseEnding}`);
    const { session, authority } = this;
    const mine: Kept = {
      ...kept,
      ...authority,
      sessionKind: session.kind,
      sessionLabel: session.label,
      caller: session.caller,
      file,
    };
    this.#write(file, mine);
    return mine;
  }

  /** Removes the file of a lease that is over, not one that has taken its place meanwhile. */
  forget({ file, leaseId }: Kept): void {
    const aside = `${file}.${randomBytes(6).toString("hex")}`;
    try {
      renameSync(file, aside);
    } catch {
      return;
    }
    if (leaseIn(aside)?.leaseId !== leaseId) {
      try {
        linkSync(aside, file);
      } catch {
        // A still newer one stands there.
      }
    }
    rmSync(aside, { force: true });
    this.#removeEmpty(dirname(file));
  }

  lease(resource: string): Kept | null {
    return leaseIn(join(this.#dir, `${hashOf([resource])}${leaseEnding}`));
  }

  leases(): Kept[] {
    return filesIn(this.#dir, leaseEnding).flatMap((file) => leaseIn(file) ?? []);
  }

  attempts(): Attempt[] {
    return filesIn(this.#dir, attemptEnding).flatMap((file) => attemptIn(file) ?? []);
  }

  /** Leases that other sessions of this principal keep here. */
  leasesOfOthers(): Kept[] {
    return this.#everywhere(leaseEnding)
      .filter((file) => dirname(file) !== this.#dir)
      .flatMap((file) => leaseIn(file) ?? [])
      .filter((kept) => this.isOurs(kept));
  }

  /** Every session's, of this principal and of others: to clean up. */
  everything(): { readonly leases: readonly Kept[]; readonly attempts: readonly Attempt[] } {
    return {
      leases: this.#everywhere(leaseEnding).flatMap((file) => leaseIn(file) ?? []),
      attempts: this.#everywhere(attemptEnding).flatMap((file) => attemptIn(file) ?? []),
    };
  }

  /** Of this server and principal, whichever session's. */
  isOurs({ server, space, principal }: Authority): boolean {
    const own = this.authority;
    return server === own.server && space === own.space && principal === own.principal;
  }

  #common(): Omit<Common, "kind" | "requestId" | "ttlSeconds"> {
    const { kind, label, caller } = this.session;
    return { ...this.authority, sessionKind: kind, sessionLabel: label, caller };
  }

  #everywhere(ending: string): string[] {
    return namesIn(this.#root).flatMap((name) => filesIn(join(this.#root, name), ending));
  }

  /** Whole or not at all, whenever this process is ended. */
  #write(file: string, { file: _, ...record }: Kept | Attempt): void {
    const fresh = `${file}.${randomBytes(6).toString("hex")}`;
    for (let again = 0; ; again++) {
      try {
        makeDirectory(this.#dir);
        writeFileSync(fresh, JSON.stringify({ version: 1, ...record }), { mode: 0o600, flag: "wx" });
        renameSync(fresh, file);
        return;
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        // Another command of this session has just removed the directory, empty.
        if (code === "ENOENT" && again < 5) continue;
        throw new CliError(
          `cannot keep the lease id in ${this.#root} (${code}): make it writable, or set XDG_STATE_HOME to another directory`,
          exitCodes.storage,
        );
      }
    }
  }

  #removeEmpty(dir: string): void {
    try {
      rmdirSync(dir);
    } catch {
      // There is more in it.
    }
  }
}

const hashOf = (parts: readonly string[]): string =>
  createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 40);

function namesIn(dir: string): string[] {
  try {
    return readdirSync(dir);
  } catch {
    return [];
  }
}

const filesIn = (dir: string, ending: string): string[] =>
  namesIn(dir)
    .filter((name) => name.endsWith(ending))
    .map((name) => join(dir, name));

function leaseIn(file: string): Kept | null {
  const record = recordIn(file);
  if (typeof record?.["leaseId"] !== "string" || typeof record["resource"] !== "string") return null;
  return { ...(record as unknown as Kept), file };
}

function attemptIn(file: string): Attempt | null {
  const record = recordIn(file);
  if (typeof record?.["requestId"] !== "string" || !Array.isArray(record["resources"])) return null;
  return { ...(record as unknown as Attempt), file };
}

/** Null for one that is gone, cut short, or of a later version. */
function recordIn(file: string): Record<string, unknown> | null {
  try {
    const { version, ...record } = JSON.parse(readFileSync(file, "utf8")) as Record<string, unknown>;
    return version === 1 ? record : null;
  } catch {
    return null;
  }
}

/** When the file was written, in ms; 0 for one that is gone. */
export const writtenAt = (file: string): number => statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
