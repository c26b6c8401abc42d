/** Opens the locks of a repository: those of the clone itself, or of one of its remotes. */
import { createHash } from "node:crypto";
import { statSync } from "node:fs";
import { join } from "node:path";
import { StoreError } from "../../store/store.js";
import { Floors, lookTrustedMs } from "./floors.js";
import { LocalRefs } from "./local.js";
import { type MachineClock, machineClock } from "./machine-clock.js";
import { Objects } from "./objects.js";
import { Records } from "./records.js";
import { RemoteRefs } from "./remote.js";
import { gitTimeoutMs, type Repository, skewDefaultMs } from "./repository.js";
import { Sightings } from "./sightings.js";
import { Snapshot } from "./snapshot.js";
import { GitStore } from "./store.js";

export interface GitOptions {
  /** `local`, or the name of a remote. */
  readonly authority: string;
  /** Where pushes to that remote go, if not to where it is fetched from. */
  readonly address?: string;
  /** What others may see of the session that asks. */
  readonly session: string | null;
  readonly skewMs?: number;
  /** How long one git process may take. */
  readonly timeoutMs?: number;
  /** How long a look at a remote may take to be believed in every part. */
  readonly lookTrustedMs?: number;
  readonly clock?: MachineClock;
}

export function openGit(repository: Repository, options: GitOptions): GitStore {
  const { authority: name, session, skewMs = skewDefaultMs, clock = machineClock() } = options;
  refuseUrl(name);
  const git = repository.git(options.timeoutMs ?? gitTimeoutMs);
  const { commonDir, sharedDir } = repository;
  const isLocal = name === "local";
  // A remote's name may hold a slash.
  const state = join(sharedDir, isLocal ? "local" : `remote-${hashOf(name)}`);
  const authority = isLocal ? new LocalRefs(git, commonDir) : new RemoteRefs(git, name, options.address);
  const objects = new Objects(git, commonDir, join(sharedDir, "scratch"));
  const sightings = new Sightings(join(state, "seen"), clock);
  const snapshot = new Snapshot(
    isLocal ? null : join(state, "refs"),
    clock,
    markOf(join(commonDir, "config")),
  );
  const floors = new Floors(clock, options.lookTrustedMs ?? lookTrustedMs);
  const records = new Records(authority, objects, sightings, snapshot, clock, skewMs, floors.trustedMs);
  return new GitStore({ authority, objects, records, floors, clock, session });
}

/** Changes when the file does. */
function markOf(file: string): string {
  const stat = statSync(file, { throwIfNoEntry: false });
  return `${stat?.ino} ${stat?.size} ${stat?.mtimeMs}`;
}

const hashOf = (text: string): string => createHash("sha256").update(text).digest("hex").slice(0, 16);

/** Whoever can commit a project file could send locks, and credentials, anywhere. */
function refuseUrl(name: string): void {
  if (name === "" || name.startsWith("-") || /[:\\\s]|^[./]|\.\./.test(name))
    throw new StoreError(
      "unsupported",
      `${JSON.stringify(name)} is no authority: give the name of a remote, as git remote lists them, or local`,
    );
}
