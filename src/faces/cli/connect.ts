/** A client for the server that the settings name. */
import { type Client, createClient } from "../../client/client.js";
import { noToken, refuseBadAddress, refuseBadToken } from "./credentials.js";
import { warn } from "./output.js";
import { type ServerFlags, type Settings, settingsOf } from "./settings.js";
import { smallFetch } from "./small-fetch.js";

export async function connect(flags: ServerFlags): Promise<{ client: Client; settings: Settings }> {
  const settings = await settingsOf(flags);
  warn(...settings.warnings.map((warning) => `holdfast: ${warning}`));
  return { client: clientOf(settings), settings };
}

function clientOf({ url, token, unused }: Settings): Client {
  refuseBadAddress(url);
  if (token === null) throw noToken(url, unused);
  refuseBadToken(token);
  return createClient({ url: url.value, token: token.value, fetch: smallFetch });
}
