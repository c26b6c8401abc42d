/** `holdfast token create|list|revoke|rotate`. */
import { policyDefault } from "../../core/limits.js";
import type { Role, TokenRecord } from "../../core/records.js";
import { defaultSpace, Tokens } from "../../service/tokens.js";
import type { Store } from "../../store/store.js";
import { CliError, durationMs, exitCodes } from "./failure.js";
import { type ReachFlags, type Remote, reach } from "./reach.js";

export interface TokenFlags extends ReachFlags {
  readonly space?: string;
}

export interface CreateFlags extends TokenFlags {
  readonly name: string;
  readonly scope?: string[];
  readonly role: string;
  readonly expires?: string;
  readonly reentrant?: boolean;
}

/** What is shown of a token, from a server or a file. */
interface TokenRow {
  readonly id: string;
  readonly name: string;
  readonly role: string;
  readonly scopes: readonly string[];
  readonly space: string;
  readonly token?: string;
}

const by = "command line";

/** Runs the same thing against a server or a data file. */
async function onEither<Result>(
  flags: ReachFlags,
  onServer: (server: Remote) => Promise<Result>,
  onStore: (tokens: Tokens, store: Store) => Promise<Result>,
): Promise<Result> {
  const reached = await reach(flags);
  if ("server" in reached) return onServer(reached.server);
  try {
    return await onStore(new Tokens(reached.store, policyDefault, []), reached.store);
  } finally {
    await reached.store.close();
  }
}

export async function createToken(flags: CreateFlags): Promise<void> {
  if (!["worker", "observer", "admin"].includes(flags.role))
    throw new CliError(`--role ${flags.role}: use worker, observer or admin`, exitCodes.usage);
  if (!/^[A-Za-z0-9._-]{1,64}$/.test(flags.name))
    throw new CliError("--name must be 1 to 64 of A-Z a-z 0-9 . _ -", exitCodes.usage);
  if (flags.space !== undefined && !/^[A-Za-z0-9._-]{1,64}$/.test(flags.space))
    throw new CliError("--space must be 1 to 64 of A-Z a-z 0-9 . _ -", exitCodes.usage);
  const expiresInMs = flags.expires === undefined ? null : durationMs(flags.expires, "--expires");
  const { name, role, scope: scopes = ["*"], reentrant = false, space } = flags;
  const row = await onEither<TokenRow>(
    flags,
    async (server) =>
      (await (
        await server.call("POST", "/tokens", {
          body: {
            name,
            role,
            scopes,
            reentrant,
            ...(space === undefined ? {} : { space }),
            ...(expiresInMs === null ? {} : { expires_in_seconds: Math.ceil(expiresInMs / 1000) }),
          },
        })
      ).json()) as TokenRow,
    async (tokens) => {
      const wish = { name, role: role as Role, scopes, reentrant, space: space ?? defaultSpace, expiresInMs };
      const made = await tokens.create(wish, by);
      if ("refused" in made)
        throw new CliError(
          `a token named ${name} exists already: rotate or revoke it first`,
          exitCodes.conflict,
        );
      return { ...rowOf(made.record), token: made.token };
    },
  );
  if (flags.json === true) print(row);
  else process.stdout.write(`${row.token}\n`);
  if (flags.json !== true)
    process.stderr.write(
      `Token ${row.name} (${row.role}, ${row.scopes.join(" ")}) in space ${row.space}. It is shown this once.\n`,
    );
}

const rowOf = ({ id, name, role, scopes, space }: TokenRecord): TokenRow => ({
  id,
  name,
  role,
  scopes,
  space,
});

const print = (value: unknown): void => void process.stdout.write(`${JSON.stringify(value)}\n`);

const within = ({ space }: TokenFlags): { space?: string } => (space === undefined ? {} : { space });

async function rows(flags: TokenFlags): Promise<TokenRow[]> {
  return onEither(
    flags,
    async (server) =>
      ((await (await server.call("GET", "/tokens", within(flags))).json()) as { tokens: TokenRow[] }).tokens,
    async (tokens) => (await tokens.list(flags.space ?? defaultSpace)).map(rowOf),
  );
}

export async function listTokens(flags: TokenFlags): Promise<void> {
  const found = await rows(flags);
  if (flags.json === true) print({ tokens: found });
  else if (found.length === 0)
    process.stdout.write("No tokens. Make one with: holdfast token create --name NAME\n");
  else
    for (const row of found)
      process.stdout.write(
        `${row.id}  ${row.name.padEnd(20)} ${row.role.padEnd(8)} ${row.scopes.join(" ")}\n`,
      );
}

/** A token may be named by its id or by its name. */
async function idOf(idOrName: string, flags: TokenFlags): Promise<string> {
  const row = (await rows(flags)).find(({ id, name }) => id === idOrName || name === idOrName);
  if (row === undefined)
    throw new CliError(`there is no token ${idOrName}: holdfast token list shows them`, exitCodes.notFound);
  return row.id;
}

export async function revokeToken(idOrName: string, flags: TokenFlags): Promise<void> {
  const id = await idOf(idOrName, flags);
  await onEither<unknown>(
    flags,
    (server) => server.call("DELETE", `/tokens/${encodeURIComponent(id)}`, within(flags)),
    (tokens) => tokens.revoke(id, flags.space ?? defaultSpace, by),
  );
  if (flags.json === true) print({ ok: true, id });
  else process.stdout.write(`Revoked ${idOrName}.\n`);
}

export async function rotateToken(idOrName: string, flags: TokenFlags): Promise<void> {
  const id = await idOf(idOrName, flags);
  const token = await onEither(
    flags,
    async (server) =>
      (
        (await (
          await server.call("POST", `/tokens/${encodeURIComponent(id)}/rotate`, within(flags))
        ).json()) as TokenRow
      ).token,
    async (tokens) => {
      const rotated = await tokens.rotate(id, flags.space ?? defaultSpace, by);
      return "refused" in rotated ? undefined : rotated.token;
    },
  );
  if (flags.json === true) print({ ok: true, id, token });
  else process.stdout.write(`${token}\n`);
}
