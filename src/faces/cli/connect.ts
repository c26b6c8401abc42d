/** A client for what the flags and settings name: a server, or the locks in a git repository. */
import { createHash } from "node:crypto";
import { type Client, createClient } from "../../client/client.js";
import { noToken, refuseBadAddress, refuseBadToken, urlDefault } from "./credentials.js";
import { CliError, exitCodes } from "./failure.js";
import { warn } from "./output.js";
import { endpointOf, type Place, type RepositoryPlace } from "./place.js";
import { projectIn } from "./project-file.js";
import { type ServerFlags, type Setting, type Settings, settingsOf, userFile } from "./settings.js";

export interface Connection {
  readonly client: Client;
  readonly settings: Settings;
  readonly place: Place;
}

/** `serves`: whether the command also works on a repository. */
export async function connect(flags: ServerFlags, serves: "both" | "server" = "both"): Promise<Connection> {
  const { settings, authority } = await choose(flags, serves);
  warn(...settings.warnings.map((warning) => `holdfast: ${warning}`));
  const place = authority?.place ?? serverOf(settings);
  // What is wrong with the repository is told as it is, not as a server that gives no reply.
  if (place.kind === "repository") await (await import("./repository/access.js")).access(place);
  return { client: clientOf(place), settings, place };
}

export interface Chosen {
  readonly settings: Settings;
  /** null: a server. */
  readonly authority: { readonly place: RepositoryPlace; readonly from: string; readonly why: string } | null;
}

/** Which it is: a repository where it was asked for, or where nothing speaks of a server. */
export async function choose(flags: ServerFlags, serves: "both" | "server" = "both"): Promise<Chosen> {
  if (flags.git === undefined) {
    const settings = await settingsOf(flags);
    // A token is for a server, also where none is named: then it is the one at the usual address.
    const isServer = settings.url.from !== "default" || settings.token !== null;
    if (isServer || serves === "server") return { settings, authority: null };
    const { isInRepository } = await import("./repository/choice.js");
    if (!isInRepository(process.cwd(), process.env)) return { settings, authority: null };
    return { settings, authority: await repositoryOf(flags, settings, "no server is configured") };
  }
  refuseBoth(flags);
  const project = await projectIn(process.cwd(), userFile(process.env));
  const url = { value: urlDefault, from: "default" };
  const settings = { url, token: null, unused: [], warnings: project.warnings, project };
  return { settings, authority: await repositoryOf(flags, settings, "--git") };
}

function refuseBoth({ server, token, tokenFile, data }: ServerFlags): void {
  const flag = Object.entries({ server, token, "token-file": tokenFile, data }).find(([, value]) => value);
  if (flag !== undefined)
    throw new CliError(
      `--git means the locks in this repository, --${flag[0]} those of a server: give one of them`,
      exitCodes.usage,
    );
}

async function repositoryOf(flags: ServerFlags, { project }: Settings, why: string) {
  const cwd = process.cwd();
  const [{ chooseRepository }, { callingSession }] = await Promise.all([
    import("./repository/choice.js"),
    import("./lock/session.js"),
  ]);
  const choice = await chooseRepository(flags.git, project, cwd, process.env);
  const { repository, authority, address, skewMs } = choice;
  const place: RepositoryPlace = {
    kind: "repository",
    cwd,
    authority: authority.value,
    address,
    commonDir: repository.commonDir,
    stateDir: repository.stateDir,
    session: shortHash(callingSession(flags as { session?: string }).key),
    skewMs,
  };
  return { place, from: authority.from, why };
}

const shortHash = (text: string): string => createHash("sha256").update(text).digest("hex").slice(0, 12);

function serverOf({ url, token, unused }: Settings): Place {
  refuseBadAddress(url);
  if (token === null) throw noToken(url, unused);
  refuseBadToken(token);
  return { kind: "server", url: url.value, token: (token as Setting).value };
}

/** Another one for the same, where the first is not to be waited for. */
export function clientOf(place: Place, attempts: { timeoutMs?: number; retries?: number } = {}): Client {
  const { url, token, fetch, timeoutMs, retries } = { ...endpointOf(place), ...attempts };
  return createClient({ url, token, fetch, retries, timeout: timeoutMs / 1000 });
}
