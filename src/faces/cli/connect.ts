/** A client for the server that the settings name. */
import { type Client, createClient } from "../../client/client.js";
import { CliError, exitCodes } from "./failure.js";
import { warn } from "./output.js";
import { type ServerFlags, type Setting, type Settings, settingsOf } from "./settings.js";
import { smallFetch } from "./small-fetch.js";

export async function connect(flags: ServerFlags): Promise<{ client: Client; settings: Settings }> {
  const settings = await settingsOf(flags);
  warn(...settings.warnings.map((warning) => `holdfast: ${warning}`));
  return { client: clientOf(settings), settings };
}

export function clientOf(settings: Settings): Client {
  const { url, token } = settings;
  if (token === null) throw new CliError(noToken(url, settings.unused), exitCodes.other, noTokenCode);
  try {
    return createClient({ url: url.value, token: token.value, fetch: smallFetch });
  } catch (error) {
    throw new CliError(`${url.from}: ${(error as Error).message}`, exitCodes.usage);
  }
}

const noTokenCode = { code: "authentication_required" };

/** With what was found and not used: the usual reason is a variable that is left of another server. */
export function noToken(url: Setting, unused: readonly string[]): string {
  const why = unused.map((reason) => `; ${reason}`).join("");
  return `no token for ${url.value} (from ${url.from})${why}. Set HOLDFAST_TOKEN with HOLDFAST_URL, or give --token-file; holdfast token create --name ME makes one`;
}
