/**
 * What the commands use of the engine that keeps locks in a git repository. It is loaded only where a repository is what
 * a command works on: one that talks to a server never pays for it.
 */
import type { Store } from "../../../store/store.js";

export interface Repository {
  /** Of this worktree. */
  readonly gitDir: string;
  /** Shared by all worktrees of a clone. */
  readonly commonDir: string;
  /** null: bare. */
  readonly workTree: string | null;
  /** Where this worktree keeps what is its own. */
  readonly stateDir: string;
  settings(): Promise<RepositorySettings>;
}

export interface RepositorySettings {
  readonly remotes: readonly string[];
  /** `git config holdfast.authority` */
  readonly authority: string | null;
  readonly lockPolicy: string | null;
  readonly skewMs: number;
}

/** A record that cannot be believed. */
export interface Trouble {
  readonly what: "damaged" | "future";
  /** null: it does not even say what it is of. */
  readonly resource: string | null;
  readonly ref: string;
  readonly details: string;
}

export interface RepositoryStore extends Store {
  troubles(): Promise<readonly Trouble[]>;
  /** Whether refs may be written; rejects with why not. */
  probe(): Promise<void>;
}

export interface RepositoryOptions {
  /** `local`, or a remote's name. */
  readonly authority: string;
  /** For people: which session of this worktree wrote a record. */
  readonly session: string | null;
  readonly skewMs?: number;
}

interface RepositoryEngine {
  findRepository(cwd: string, env: NodeJS.ProcessEnv): Promise<Repository>;
  openRepository(repository: Repository, options: RepositoryOptions): Promise<RepositoryStore>;
}

export const loadEngine = async (): Promise<RepositoryEngine> =>
  (await import("../../../engines/open.js")) as unknown as RepositoryEngine;
