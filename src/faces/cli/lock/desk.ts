/** What every command on leases works with: a server or a repository, who is asking, and the lease ids kept for the session. */
import type { Client } from "../../../client/client.js";
import { parseName } from "../../../core/names.js";
import { connect } from "../connect.js";
import { CliError, exitCodes } from "../failure.js";
import type { Place } from "../place.js";
import type { ServerFlags } from "../settings.js";
import { KeptLeases, stateDir } from "./kept-leases.js";
import { markOf } from "./process-mark.js";
import { type CallingSession, callingSession, type SessionFlags } from "./session.js";

export interface DeskFlags extends ServerFlags, SessionFlags {
  readonly json?: boolean;
}

export interface Desk {
  readonly client: Client;
  readonly place: Place;
  readonly principal: string;
  readonly session: CallingSession;
  readonly kept: KeptLeases;
}

/** `serves`: whether the command also works on a repository. */
export async function openDesk(flags: DeskFlags, serves: "both" | "server" = "both"): Promise<Desk> {
  const session = callingSession(flags);
  const { client, place } = await connect(flags, serves);
  // Leases belong to the principal, whose bearer token may be replaced; and a wrong one is noticed before anything is kept.
  const { principal, space } = await client.whoami();
  const authority = { server: authorityText(place), space, principal };
  // Those of a repository stay in it: they go when it goes.
  const dir = place.kind === "server" ? stateDir() : place.stateDir;
  const kept = new KeptLeases(authority, session, markOf(process.pid), dir);
  return { client, place, principal, session, kept };
}

function authorityText(place: Place): string {
  // Not where it is: what is kept lies in it, and a clone that was moved is the same actor.
  if (place.kind === "repository") return `git:${place.authority}`;
  const { origin, pathname } = new URL(place.url);
  return `${origin}${pathname.replace(/\/+$/, "")}`;
}

/** The name in its one normal form: what is kept for it is found under that. */
export function nameOf(raw: string): string {
  const parsed = parseName(raw);
  if ("name" in parsed) return parsed.name;
  throw new CliError(`${JSON.stringify(raw)} cannot be locked: ${parsed.invalid}`, exitCodes.usage, {
    code: "invalid_lock_name",
  });
}

/** A word of a command line as a shell takes it. */
export const shellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

/** What a suggested command repeats of the one that was typed. */
interface Repeated extends ServerFlags {
  readonly ttl?: string;
  readonly progress?: string;
  readonly outcome?: string;
  readonly note?: string;
}

/** Flags as they are typed after a command, so that a suggested one means the same: what is asked for, and of whom. */
export function repeated(flags: Repeated): string {
  const { ttl, progress, outcome, note, server, data, tokenFile } = flags;
  const named = { ttl, progress, outcome, note, server, data, "token-file": tokenFile };
  const given = Object.entries(named).flatMap(([name, value]) =>
    value === undefined ? [] : [` --${name} ${shellWord(value)}`],
  );
  if (flags.git !== undefined) given.push(flags.git === "" ? " --git" : ` --git=${shellWord(flags.git)}`);
  // A secret is not repeated: messages end up in logs.
  return `${given.join("")}${flags.token === undefined ? "" : " --token TOKEN"}`;
}
