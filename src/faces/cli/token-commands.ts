/** `holdfast token create|list|revoke|rotate`. */
import { policyDefault } from "../../core/limits.js";
import type { Role, TokenRecord } from "../../core/records.js";
import { defaultSpace, type TokenAct, Tokens } from "../../service/tokens.js";
import type { Store } from "../../store/store.js";
import { wireLimitsDefault } from "../../wire/fields.js";
import { instantMax } from "../../wire/instant-max.js";
import { CliError, durationMs, exitCodes } from "./failure.js";
import { printJson } from "./output.js";
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
  readonly expires_at: string | null;
  readonly token?: string;
}

const act = (): TokenAct => ({ by: "command line", wallAt: Date.now() });

/** Runs the same thing against a server or a data file, and says which it was. */
async function onEither<Result>(
  flags: ReachFlags,
  onServer: (server: Remote) => Promise<Result>,
  onStore: (tokens: Tokens, store: Store) => Promise<Result>,
): Promise<{ result: Result; where: string }> {
  const reached = await reach(flags);
  const { where } = reached;
  if ("server" in reached) return { result: await onServer(reached.server), where };
  try {
    return { result: await onStore(new Tokens(reached.store, policyDefault, []), reached.store), where };
  } finally {
    await reached.store.close();
  }
}

/** What the server would refuse is refused here too: a data file has nobody else to do it. */
function refuseWrong(flags: CreateFlags, expiresInMs: number): void {
  const { tokenExpirySecondsMax, scopeCharsMax, scopesMax } = wireLimitsDefault;
  const { role, name, space, scope = ["*"] } = flags;
  const need = (isRight: boolean, what: string): void => {
    if (!isRight) throw new CliError(what, exitCodes.usage);
  };
  need(["worker", "observer", "admin"].includes(role), `--role ${role}: use worker, observer or admin`);
  need(wordPattern.test(name), "--name must be 1 to 64 of A-Z a-z 0-9 . _ -");
  need(space === undefined || wordPattern.test(space), "--space must be 1 to 64 of A-Z a-z 0-9 . _ -");
  need(
    expiresInMs <= tokenExpirySecondsMax * 1000,
    `--expires ${flags.expires}: at most ${tokenExpirySecondsMax / 86_400}d; leave it out for never`,
  );
  need(
    scope.length <= scopesMax && scope.every((each) => each !== "" && [...each].length <= scopeCharsMax),
    `--scope takes 1 to ${scopesMax} patterns of 1 to ${scopeCharsMax} characters`,
  );
}

const wordPattern = /^[A-Za-z0-9._-]{1,64}$/;

export async function createToken(flags: CreateFlags): Promise<void> {
  const expiresInMs = flags.expires === undefined ? null : durationMs(flags.expires, "--expires");
  refuseWrong(flags, expiresInMs ?? 0);
  const { name, role, scope: scopes = ["*"], reentrant = false, space } = flags;
  const { result: row, where } = await onEither<TokenRow>(
    flags,
    (server) =>
      server.ask<TokenRow>("POST", "/tokens", ["id", "token", "scopes"], {
        body: {
          name,
          role,
          scopes,
          reentrant,
          ...(space === undefined ? {} : { space }),
          ...(expiresInMs === null ? {} : { expires_in_seconds: Math.ceil(expiresInMs / 1000) }),
        },
      }),
    async (tokens, store) => {
      const wish = { name, role: role as Role, scopes, reentrant, space: space ?? defaultSpace, expiresInMs };
      const made = await tokens.create(wish, act());
      if ("refused" in made)
        throw new CliError(
          made.refused === "name_given"
            ? `the name ${name} belongs to the server's configuration: choose another`
            : `a token named ${name} exists already: rotate or revoke it first`,
          exitCodes.conflict,
        );
      return { ...rowOf(made.record, store), token: made.token };
    },
  );
  if (flags.json === true) printJson(row);
  else process.stdout.write(`${row.token}\n`);
  if (flags.json !== true)
    process.stderr.write(
      `Token ${row.name} (${row.role}, ${row.scopes.join(" ")}) in space ${row.space}, made in ${where}. It is shown this once.\n`,
    );
}

const rowOf = ({ id, name, role, scopes, space, expiresAt }: TokenRecord, store: Store): TokenRow => ({
  id,
  name,
  role,
  scopes,
  space,
  expires_at:
    expiresAt === null
      ? null
      : new Date(Math.min(Date.now() + expiresAt - store.now(), instantMax)).toISOString(),
});

const within = ({ space }: TokenFlags): { space?: string } => (space === undefined ? {} : { space });

async function rows(flags: TokenFlags): Promise<TokenRow[]> {
  const { result } = await onEither(
    flags,
    async (server) =>
      (await server.ask<{ tokens: TokenRow[] }>("GET", "/tokens", ["tokens"], within(flags))).tokens,
    async (tokens, store) =>
      (await tokens.list(flags.space ?? defaultSpace)).map((record) => rowOf(record, store)),
  );
  return result;
}

/** Columns as wide as what stands in them. */
function table(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]?.map((_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0))) ?? [];
  return rows
    .map(
      (row) =>
        `${row
          .map((cell, i) => cell.padEnd(widths[i] ?? 0))
          .join("  ")
          .trimEnd()}\n`,
    )
    .join("");
}

function expiryText(expiresAt: string | null): string {
  if (expiresAt === null) return "never";
  return Date.parse(expiresAt) < Date.now() ? `expired ${expiresAt}` : expiresAt;
}

export async function listTokens(flags: TokenFlags): Promise<void> {
  const found = await rows(flags);
  if (flags.json === true) printJson({ tokens: found });
  else if (found.length === 0)
    process.stdout.write("No tokens. Make one with: holdfast token create --name NAME\n");
  else {
    const lines = found.map((row) => [
      row.id,
      row.name,
      row.role,
      row.space,
      expiryText(row.expires_at),
      row.scopes.join(" "),
    ]);
    process.stdout.write(table([["ID", "NAME", "ROLE", "SPACE", "EXPIRES", "SCOPES"], ...lines]));
  }
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
  const { where } = await onEither<unknown>(
    flags,
    (server) => server.open("DELETE", `/tokens/${encodeURIComponent(id)}`, within(flags)),
    (tokens) => tokens.revoke(id, flags.space ?? defaultSpace, act()),
  );
  if (flags.json === true) printJson({ id });
  else process.stdout.write(`Revoked ${idOrName} in ${where}.\n`);
}

export async function rotateToken(idOrName: string, flags: TokenFlags): Promise<void> {
  const id = await idOf(idOrName, flags);
  const { result: token, where } = await onEither(
    flags,
    async (server) => {
      const path = `/tokens/${encodeURIComponent(id)}/rotate`;
      return (await server.ask<TokenRow>("POST", path, ["token"], within(flags))).token;
    },
    async (tokens) => {
      const rotated = await tokens.rotate(id, flags.space ?? defaultSpace, act());
      return "refused" in rotated ? undefined : rotated.token;
    },
  );
  if (flags.json === true) printJson({ id, token });
  else {
    process.stdout.write(`${token}\n`);
    process.stderr.write(
      `The new secret of ${idOrName} in ${where}. It is shown this once; the old one is over.\n`,
    );
  }
}
