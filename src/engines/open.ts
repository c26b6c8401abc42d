/** From a store's URL to its engine. The only place outside the engines' folders that knows their names. */
import {
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { dirname, resolve } from "node:path";
import { policyDefault } from "../core/limits.js";
import type { Source, Target } from "../store/archive.js";
import { systemClocks } from "../store/clock.js";
import { makeDirectory } from "../store/directory.js";
import { type Report, theStore } from "../store/report.js";
import { NoDataError, type Store, StoreError, StoreUrlError } from "../store/store.js";
import type { GitOptions } from "./git/open.js";
import type { Trouble } from "./git/records.js";
import type { Repository } from "./git/repository.js";

export interface StoreOptions {
  readonly feedEventsMax?: number;
  readonly feedAgeMaxMs?: number;
  /** What works, but may not be what was meant. */
  readonly onWarning?: (what: string) => void;
  readonly onFailure?: Report;
}

/** What can be named as a store, for people. */
export const storeForms = "sqlite:FILE, postgres://…, etcd://HOST:2379,… or memory:";

/** Engines are loaded when they are asked for. */
export async function openStore(url: string, options: StoreOptions = {}): Promise<Store> {
  const [scheme, rest] = split(url);
  if (scheme === "postgres") {
    const { openPostgres } = await import("./postgres/open.js");
    return openPostgres(url, options);
  }
  if (scheme === "memory") {
    const { MemoryData, MemoryStore } = await import("./memory/store.js");
    return new MemoryStore(new MemoryData(undefined, options.feedEventsMax));
  }
  if (scheme === "etcd") {
    const { openEtcd } = await import("./etcd/open.js");
    const { onWarning: warn, onFailure: report } = options;
    return openEtcd(rest, {
      ...(warn === undefined ? {} : { warn }),
      ...(report === undefined ? {} : { report }),
    });
  }
  const { openSqlite } = await import("./sqlite/open.js");
  const { onFailure = () => undefined, ...others } = options;
  const onTrouble = (what: string | null): void =>
    onFailure(theStore, what === null ? null : new StoreError("unavailable", what));
  return openSqlite({ ...others, onTrouble, path: resolve(rest) });
}

export const isStoreUrl = (url: string): boolean =>
  /^sqlite:.|^memory:|^etcd:\/\/.|^postgres(?:ql)?:\/\//.test(url);

type Scheme = "sqlite" | "memory" | "postgres" | "etcd";

function split(url: string): [scheme: Scheme, rest: string] {
  const match = /^(sqlite|memory|etcd|postgres)(?:ql)?:(.*)$/s.exec(url);
  if (match === null)
    throw new StoreUrlError(`${JSON.stringify(withoutPassword(url))} is no store: use ${storeForms}`);
  const scheme = match[1] as Scheme;
  if (scheme === "sqlite" && match[2] === "")
    throw new StoreUrlError("sqlite: needs a file, as in sqlite:./holdfast.db");
  return [scheme, match[2] ?? ""];
}

/** For messages: whoever reads them must not learn it. */
export const withoutPassword = (url: string): string => url.replace(/(:\/\/[^/?#]*?):[^/?#]*@/, "$1:…@");

/** What opening would find: no file yet, or one that is there and holds nothing. */
export function findOf(url: string): { isNew: boolean; isEmpty: boolean } {
  const [scheme, rest] = split(url);
  if (scheme !== "sqlite") return { isNew: false, isEmpty: false };
  const isThere = existsSync(rest);
  return { isNew: !isThere, isEmpty: isThere && statSync(rest).size === 0 };
}

/** A store whose data is to be carried elsewhere. Throws `NoDataError` if there is none. */
export async function openSource(url: string): Promise<Source> {
  const [scheme, rest] = split(url);
  if (scheme === "postgres") return (await import("./postgres/archive.js")).openPostgresSource(url);
  if (scheme === "etcd") return (await import("./etcd/archive.js")).openEtcdSource(rest);
  if (scheme === "memory") throw new StoreUrlError(notCarried);
  const path = resolve(rest);
  if (!existsSync(path)) throw new NoDataError(path);
  const { SqliteArchive } = await import("./sqlite/archive.js");
  return new SqliteArchive(path, systemClocks);
}

/** A store that is to be filled, made if it is not there. */
export async function openTarget(url: string): Promise<Target> {
  const [scheme, rest] = split(url);
  if (scheme === "postgres") return (await import("./postgres/archive.js")).openPostgresTarget(url);
  if (scheme === "etcd") return (await import("./etcd/archive.js")).openEtcdTarget(rest);
  if (scheme === "memory") throw new StoreUrlError(notCarried);
  const { SqliteArchive } = await import("./sqlite/archive.js");
  return new SqliteArchive(resolve(rest), systemClocks);
}

const notCarried = "memory: keeps nothing that could be carried elsewhere, nor keeps what is carried to it";

/** Several servers can use it at once. */
export const isShared = (url: string): boolean => ["postgres", "etcd"].includes(split(url)[0]);

/** Two names of one file or one text: the same store, without asking it. */
export const isSameStore = (one: string, other: string): boolean => placeOf(one) === placeOf(other);

function placeOf(url: string): string {
  const [scheme, rest] = split(url);
  return scheme === "sqlite" ? `sqlite:${resolve(rest)}` : url;
}

export type { Repository } from "./git/repository.js";

/** The repository that a command run in `cwd` means. Throws `unsupported` if there is none. */
export async function findRepository(cwd: string, env: NodeJS.ProcessEnv): Promise<Repository> {
  const git = await import("./git/repository.js");
  return git.findRepository(cwd, env);
}

/** Locks of a repository, without a server. */
export async function openRepository(repository: Repository, options: GitOptions): Promise<RepositoryStore> {
  const { openGit } = await import("./git/open.js");
  return openGit(repository, options);
}

/** A store whose records are in a repository, where others may have damaged them or refuse to take them. */
export interface RepositoryStore extends Store {
  /** Records that cannot be read, or that seem to come from the future. */
  troubles(seen?: "seen" | "now"): Promise<readonly Trouble[]>;
  /** Rejects with why if locks cannot be written. */
  probe(): Promise<void>;
}

/** The store that is used when none is named. */
export const storeIn = (dataDir: string): string => `sqlite:${resolve(dataDir, "holdfast.db")}`;

export interface RestoreRequest {
  readonly backup: string;
  readonly store: string;
  /** undefined: as long as the longest TTL in the copy. */
  readonly quietMs?: number;
  readonly principal: string;
  readonly auditId: string;
}

/** Something of an older data file stands where a new one should go. */
export class OccupiedError extends StoreError {
  constructor(path: string) {
    super(
      "unsupported",
      `${path} exists already: move it away first, or restore into another --data directory`,
    );
  }
}

/** Puts a backup in place as a new data file. The file appears under its name only when it is complete. */
export async function restoreStore(
  request: RestoreRequest,
): Promise<{ path: string; quietMs: number; leasesEnded: number }> {
  const [scheme, rest] = split(request.store);
  if (scheme !== "sqlite")
    throw new StoreError("unsupported", "only a file can be restored: use --data DIR or --store sqlite:FILE");
  const path = resolve(rest);
  if (!existsSync(request.backup))
    throw new StoreError("unsupported", `there is no backup ${request.backup}`);
  const { occupantOf, refuseStranger } = await import("./sqlite/data-file.js");
  const occupant = occupantOf(path);
  if (occupant !== undefined) throw new OccupiedError(occupant);
  refuseStranger(request.backup);
  const { FileLock } = await import("./sqlite/file-lock.js");
  const { restoreCopy } = await import("./sqlite/restore.js");
  makeDirectory(dirname(path));
  const lock = new FileLock(path);
  const partial = `${path}.restoring`;
  const clear = (): void => {
    for (const suffix of ["", "-wal", "-shm"]) rmSync(partial + suffix, { force: true });
  };
  try {
    clear();
    copyFileSync(request.backup, partial);
    const { quietMs, leasesEnded } = restoreCopy(partial, {
      ...(request.quietMs === undefined ? {} : { quietMs: request.quietMs }),
      wallNow: Date.now(),
      principal: request.principal,
      auditRetentionMs: policyDefault.auditRetentionMs,
      recordRetentionMs: policyDefault.recordRetentionMs,
      auditId: request.auditId,
    });
    renameSync(partial, path);
    syncDirectory(dirname(path));
    return { path, quietMs, leasesEnded };
  } catch (error) {
    if (error instanceof StoreError)
      throw new StoreError(error.kind, error.message.replaceAll(partial, request.backup));
    throw error;
  } finally {
    clear();
    lock.release();
  }
}

/** A new name is safe only once its directory is on the disk too. */
function syncDirectory(path: string): void {
  const descriptor = openSync(path, "r");
  fsyncSync(descriptor);
  closeSync(descriptor);
}
