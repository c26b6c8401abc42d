/** What went wrong with the database, as a caller must understand it: certainly not done, or perhaps; and what to do. */
import { StoreError } from "../../store/store.js";
import { Failure } from "./connection.js";

/** A reading that failed: nothing was done. */
export const readFailure = (location: string, error: unknown): unknown => failureOf(location, error, false);

/** The same at the start, where a person can still correct the URL: also what in it may be wrong. */
export const openFailure = (location: string, error: unknown): unknown => failureOf(location, error, true);

function failureOf(location: string, error: unknown, isStart: boolean): unknown {
  if (!(error instanceof Failure)) return error;
  return new StoreError("unavailable", `the database ${location} ${whyNot(error, isStart)}`, {
    cause: error,
  });
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

/** Settings that were checked at the start and are others now. Nothing was written. */
export const settingsChanged = (location: string, what: "fsync" | "isolation"): StoreError =>
  new StoreError(
    "unavailable",
    `the settings of the database ${location} were changed (${what === "fsync" ? "fsync" : "default_transaction_isolation"}) and no longer keep what is promised: nothing is written until they are as they were`,
  );

function whyNot({ code, message }: Failure, isStart: boolean): string {
  const { what, advice } = causes.find(({ when }) => when.test(code) || when.test(message)) ?? {};
  if (what === undefined) return `failed: ${message}`;
  return `${what}${isStart && advice !== undefined ? `: ${advice}` : ""} (${message})`;
}

interface Cause {
  /** Its code, or what the driver says where there is none. */
  readonly when: RegExp;
  readonly what: string;
  /** What a person at the start can do about it; callers of a server that runs cannot. */
  readonly advice?: string;
}

const causes: readonly Cause[] = [
  {
    when: /^ENOTFOUND|^EAI_/,
    what: "is on a host whose name is unknown",
    advice: "correct the host in the store's URL",
  },
  {
    when: /^ECONNREFUSED$|^ENOENT$/,
    what: "cannot be reached",
    advice: "is it running, and are host and port in the store's URL right?",
  },
  { when: /^ECONN|^EPIPE$|^ETIMEDOUT$|^EHOST|^ENET/, what: "cannot be reached" },
  {
    when: /^timeout expired$|^Connection terminated due to connection timeout$/,
    what: "did not answer in time",
    advice: "is it PostgreSQL, and are host and port in the store's URL right?",
  },
  {
    when: /^Connection terminated unexpectedly$/,
    what: "closed the connection",
    advice: "is it PostgreSQL, and are host and port in the store's URL right?",
  },
  {
    when: /does not support SSL connections/,
    what: "does not speak TLS",
    advice: "turn it on there (ssl = on in postgresql.conf), or take sslmode out of the store's URL",
  },
  {
    when: /SELF_SIGNED|^UNABLE_TO_|CERT_UNTRUSTED/,
    what: "has a certificate of an authority that is not known here",
    advice: "name the file of that authority as sslrootcert in the store's URL",
  },
  {
    when: /^ERR_TLS_CERT_ALTNAME_INVALID$/,
    what: "has a certificate for another name",
    advice: "use a host in the store's URL that the certificate names",
  },
  {
    when: /^28P01$/,
    what: "refused the password",
    advice: "correct user and password in the store's URL, or PGPASSWORD",
  },
  {
    when: /^28/,
    what: "refused the user",
    advice: "correct the user in the store's URL, or let it in by pg_hba.conf",
  },
  {
    when: /password must be a string$/,
    what: "asks for a password",
    advice: "write it in the store's URL, or set PGPASSWORD",
  },
  {
    when: /^3D000$/,
    what: "does not exist on that server",
    advice: "create it, or correct the name in the store's URL",
  },
  {
    when: /^42501$/,
    what: "does not allow this user what is needed",
    advice: "make it the owner of the schema (docs/postgres.md)",
  },
  {
    when: /^(?:42883|42P01|3F000|42703)$/,
    what: "lacks tables or functions of Holdfast: were they dropped? Restart the server",
  },
  { when: /^25006$/, what: "only reads", advice: "let the store's URL name the primary" },
  { when: /^55000$/, what: "follows another", advice: "let the store's URL name the primary" },
  { when: /^55P03$/, what: "was busy with other commits for too long: try again" },
  { when: /^57P03$/, what: "is starting or stopping" },
  { when: /^57P/, what: "was stopped" },
  {
    when: /^53300$/,
    what: "has no connection left: raise max_connections, or put PgBouncer in front",
  },
  { when: /^53100$/, what: "has no room left on its disk" },
  { when: /^53/, what: "lacks resources" },
];
