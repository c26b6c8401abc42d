/** What went wrong with the database, as a caller must understand it: certainly not done, or perhaps; and what to do. */
import { StoreError } from "../../store/store.js";
import { Failure } from "./connection.js";

/** A reading that failed: nothing was done. */
export function readFailure(location: string, error: unknown): unknown {
  if (!(error instanceof Failure)) return error;
  return new StoreError("unavailable", `the database ${location} ${whyNot(error)}`, { cause: error });
}

/** A commit that failed: done, or not, or nobody knows. */
export function commitFailure(location: string, error: unknown): unknown {
  if (!(error instanceof Failure) || error.isCertain) return readFailure(location, error);
  return new StoreError(
    "unknown",
    `the database ${location} did not say whether it took the change (${error.message}): repeat with the same request id`,
    { cause: error },
  );
}

/** Also what a person at the start can do about it. */
function whyNot({ code, message }: Failure): string {
  const advice = advices.find(([codes]) => codes.test(code))?.[1];
  return advice === undefined ? `failed: ${message}` : `${advice} (${message})`;
}

const advices: readonly [RegExp, string][] = [
  [/^ENOTFOUND|^EAI_/, "is on a host whose name is unknown: correct the host in --store"],
  [/^ECONNREFUSED$|^ENOENT$/, "cannot be reached: is it running, and are host and port in --store right?"],
  [/^ECONN|^EPIPE$|^ETIMEDOUT$|^EHOST|^ENET/, "cannot be reached"],
  [/^28P01$/, "refused the password: correct user and password in --store"],
  [/^28/, "refused the user: correct the user in --store, or let it in by pg_hba.conf"],
  [/^3D000$/, "does not exist on that server: create it, or correct the name in --store"],
  [/^42501$/, "does not allow this user what is needed: make it the owner of the schema (docs/postgres.md)"],
  [
    /^(?:42883|42P01|3F000|42703)$/,
    "lacks tables or functions of Holdfast: were they dropped? Restart the server",
  ],
  [/^25006$/, "only reads: point --store at the primary"],
  [/^55000$/, "follows another: point --store at the primary"],
  [/^55P03$/, "was busy with other commits for too long: try again"],
  [/^57P03$/, "is starting or stopping"],
  [/^57P/, "was stopped"],
  [/^53300$/, "has no connection left: raise max_connections, or put PgBouncer in front"],
  [/^53100$/, "has no room left on its disk"],
  [/^53/, "lacks resources"],
];
