/** What a database must be before anything is kept in it: durable, writable, recent enough, and speaking the same text. */
import { StoreError } from "../../store/store.js";
import type { Pool } from "./pool.js";

const versionMin = 13;

/** Each with what it must be: read on whichever connection, as all of a role's sessions have the same. */
const settings = [
  "server_version_num",
  "fsync",
  "full_page_writes",
  "synchronous_commit",
  "server_encoding",
  "default_transaction_isolation",
  "default_transaction_read_only",
] as const;

type Settings = Readonly<Record<(typeof settings)[number] | "recovery", string>>;

/** Throws `unsupported` with what to do; returns what works and may not be meant. */
export async function checkDatabase(pool: Pool, location: string): Promise<string[]> {
  const asked = settings.map((name) => `current_setting('${name}')`).join(", ");
  const { rows } = await pool.query(`SELECT ${asked}, pg_is_in_recovery()::text`);
  const names = [...settings, "recovery"];
  const found = Object.fromEntries(names.map((name, i) => [name, rows[0]?.[i] ?? ""])) as Settings;
  const problem = problemOf(found);
  if (problem !== null) throw new StoreError("unsupported", `the database ${location} ${problem}`);
  const warnings: string[] = [];
  if (found.full_page_writes !== "on")
    warnings.push(`full_page_writes is off in ${location}: a power loss can damage it; set it to on`);
  if (found.synchronous_commit === "local")
    warnings.push(
      `synchronous_commit is local in ${location}: commits wait for no standby, and a failover can lose leases`,
    );
  return warnings;
}

function problemOf(found: Settings): string | null {
  const version = Math.floor(Number(found.server_version_num) / 10_000);
  if (version < versionMin) return `is PostgreSQL ${version}: ${versionMin} or newer is needed`;
  if (found.recovery === "true")
    return "is a standby that only follows: let the store's URL name the primary, or a name that moves with it";
  if (found.default_transaction_read_only === "on")
    return "only reads (default_transaction_read_only): let the store's URL name the primary, or turn that off for this user";
  if (found.fsync !== "on")
    return "has fsync off and would lose what it has confirmed: set fsync = on in postgresql.conf and reload";
  if (found.synchronous_commit === "off")
    return "has synchronous_commit off for this user and would lose what it has confirmed: ALTER ROLE … RESET synchronous_commit, or set it to on in postgresql.conf";
  if (found.server_encoding !== "UTF8")
    return `has the encoding ${found.server_encoding}: create one with ENCODING 'UTF8'`;
  if (found.default_transaction_isolation !== "read committed")
    return `has default_transaction_isolation ${found.default_transaction_isolation} for this user, and commits need read committed: ALTER ROLE … RESET default_transaction_isolation`;
  return null;
}
